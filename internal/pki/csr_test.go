package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"net/url"
	"testing"

	"berth/structs"
)

func newTestKey(t *testing.T) *Key {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCSR_HasItsIdentityAndItsKey(t *testing.T) {
	key := newTestKey(t)
	id := Identity{Region: "global", Role: RoleNode, ID: "n1"}
	der, err := key.CSR(id)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseCSR(der)
	if err != nil || got.Identity != id || !bytes.Equal(KeyHash(got.Public), KeyHash(key.signer.Public())) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseCSR_RejectsOthers(t *testing.T) {
	key := newTestKey(t)
	id := Identity{Region: "global", Role: RoleNode, ID: "n1"}
	der, err := key.CSR(id)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Clone(der)
	forged[len(forged)-1] ^= 1 // of the signature
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(key any, uris ...*url.URL) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: uris}, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	for name, der := range map[string][]byte{
		"nothing":                 {},
		"another signature":       forged,
		"a key of RSA":            sign(rsaKey, id.URI()),
		"no identity":             sign(key.signer),
		"two identities":          sign(key.signer, id.URI(), id.URI()),
		"an unknown role":         sign(key.signer, &url.URL{Scheme: "spiffe", Host: "global", Path: "/root/x"}),
		"more bytes than allowed": make([]byte, MaxCSR+1),
	} {
		_, err := ParseCSR(der)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v; expected invalid", name, err)
		}
	}
}
