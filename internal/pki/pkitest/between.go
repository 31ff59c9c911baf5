package pkitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/pki"
)

// NewBetween makes an authority that another one has signed. CAFile is the other one's, and the files
// of certificates have the authority between, too.
func NewBetween(t testing.TB, region string) *Authority {
	t.Helper()
	root, rootKey := authorityTemplate("root", region), newKey(t)
	rootDER := sign(t, root, root, rootKey, rootKey)
	between, key := authorityTemplate("between", region), newKey(t)
	certPEM := encode("CERTIFICATE", sign(t, between, root, key, rootKey))
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	authority, err := pki.ParseAuthority(certPEM, encode("PRIVATE KEY", keyDER))
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	caFile := filepath.Join(dir, "ca.pem")
	Write(t, caFile, encode("CERTIFICATE", rootDER))
	return &Authority{
		Authority: authority,
		Dir:       dir,
		CAFile:    caFile,
		between:   certPEM,
	}
}

// NewLimited makes an authority of another tool, which allows some others below it at most.
func NewLimited(t testing.TB, others int) *pki.Authority {
	t.Helper()
	template, key := authorityTemplate("limited", "global"), newKey(t)
	template.MaxPathLen = others
	template.MaxPathLenZero = others == 0
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	cert := encode("CERTIFICATE", sign(t, template, template, key, key))
	authority, err := pki.ParseAuthority(cert, encode("PRIVATE KEY", keyDER))
	if err != nil {
		t.Fatal(err)
	}

	return authority
}

func authorityTemplate(name, region string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		SubjectKeyId:          []byte(name),
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: region}},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(30 * Life),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
