package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

var begin = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority("global", begin, 30*day)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func request(role Role, id string) Request {
	return Request{
		Identity: Identity{Region: "global", Role: role, ID: id},
		From:     begin,
		Life:     day,
	}
}

// issue returns the certificate for a request, after it checked that its key fits.
func issue(t *testing.T, a *Authority, r Request) *x509.Certificate {
	t.Helper()
	certPEM, keyPEM, err := a.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestIssue_GivesEachRoleItsUsesAndNames(t *testing.T) {
	a := newAuthority(t)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for _, tc := range []struct {
		role  Role
		names []string
		uses  []x509.ExtKeyUsage
		dns   []string
		ips   []string
	}{
		{RoleServer, []string{"s1.example.com", "10.0.0.1", "localhost"}, both,
			[]string{"server.global.berth", "localhost", "s1.example.com"}, []string{"127.0.0.1", "::1", "10.0.0.1"}},
		{RoleNode, nil, both,
			[]string{"node.global.berth", "localhost"}, []string{"127.0.0.1", "::1"}},
		{RoleOperator, nil, both[:1], nil, nil},
	} {
		r := request(tc.role, "id-1")
		r.Names = tc.names
		cert := issue(t, a, r)
		id, err := IdentityOf(cert)
		if err != nil || id != r.Identity {
			t.Errorf("%s: identity %v, %v; want %v", tc.role, id, err, r.Identity)
		}
		var ips []string
		for _, ip := range cert.IPAddresses {
			ips = append(ips, ip.String())
		}
		if !reflect.DeepEqual(cert.DNSNames, tc.dns) || !reflect.DeepEqual(ips, tc.ips) {
			t.Errorf("%s: names %q and %q; want %q and %q", tc.role, cert.DNSNames, ips, tc.dns, tc.ips)
		}
		if !reflect.DeepEqual(cert.ExtKeyUsage, tc.uses) || cert.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("%s: uses %v and %b", tc.role, cert.ExtKeyUsage, cert.KeyUsage)
		}
		if cert.IsCA || len(cert.SubjectKeyId) == 0 || cert.SerialNumber.BitLen() > 128 {
			t.Errorf("%s: CA %t, subject key ID %x, serial %v", tc.role, cert.IsCA, cert.SubjectKeyId, cert.SerialNumber)
		}
	}
}

func TestIssue_IsVerifiedFromAnHourBeforeItsBeginUntilItsEnd(t *testing.T) {
	a := newAuthority(t)
	cert := issue(t, a, request(RoleServer, "s1"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.CertPEM())
	for after, ok := range map[time.Duration]bool{
		-time.Hour - time.Second: false,
		-time.Hour:               true,
		0:                        true,
		day:                      true,
		day + time.Second:        false,
	} {
		_, err := cert.Verify(x509.VerifyOptions{
			Roots:       roots,
			DNSName:     "server.global.berth",
			CurrentTime: begin.Add(after),
		})
		if (err == nil) != ok {
			t.Errorf("%s after the begin: %v; want accepted %t", after, err, ok)
		}
	}
}

func TestNewAuthority_SignsCertificatesAndAllowsOtherAuthoritiesBelow(t *testing.T) {
	cert := newAuthority(t).Cert
	if !cert.IsCA || !AllowsBelow(cert, 100) || cert.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign {
		t.Errorf("CA %t, path length %d, use %b", cert.IsCA, cert.MaxPathLen, cert.KeyUsage)
	}
}

func TestParseAuthority_ReadsItsOwnFiles(t *testing.T) {
	a := newAuthority(t)
	keyPEM, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseAuthority(a.CertPEM(), keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	cert := issue(t, b, request(RoleNode, "n1"))
	err = cert.CheckSignatureFrom(a.Cert)
	if err != nil || b.Region() != "global" {
		t.Errorf("region %q, signature: %v", b.Region(), err)
	}
}

func TestParseAuthority_RejectsOtherFiles(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	keyPEM, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	leafCert, leafKey, err := a.Issue(request(RoleServer, "s1"))
	if err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string][2][]byte{
		"does not match":                 {other.CertPEM(), keyPEM},
		"not of a certificate authority": {leafCert, leafKey},
		"failed to find":                 {nil, keyPEM},
	} {
		_, err := ParseAuthority(files[0], files[1])
		if err == nil || !strings.Contains(err.Error(), want) || structs.KindOf(err) != structs.KindInvalid {
			t.Errorf("got %v; want invalid with %q", err, want)
		}
	}
}

func TestParseAuthority_RejectsAnAuthorityThatMustNotSign(t *testing.T) {
	a := newAuthority(t)
	template := *a.Cert
	template.KeyUsage = x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	_, err = ParseAuthority(pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: der}), keyPEM)
	if err == nil || !strings.Contains(err.Error(), "keyCertSign") {
		t.Errorf("got %v", err)
	}
}

func TestSign_RejectsWhatNoCertificateSays(t *testing.T) {
	a := newAuthority(t)
	for want, edit := range map[string]func(*Request){
		`region "" must`:         func(r *Request) { r.Region = "" },
		`region "a b" must`:      func(r *Request) { r.Region = "a b" },
		`region "a..b" must`:     func(r *Request) { r.Region = "a..b" },
		`region "ä" must`:        func(r *Request) { r.Region = "ä" },
		`region "a:1" must`:      func(r *Request) { r.Region = "a:1" },
		`region "a@b" must`:      func(r *Request) { r.Region = "a@b" },
		"1 to 64 letters":        func(r *Request) { r.Region = strings.Repeat("a.", 40) + "a" },
		"id is required":         func(r *Request) { r.ID = "" },
		`id "a/b" must not`:      func(r *Request) { r.ID = "a/b" },
		`role "root"`:            func(r *Request) { r.Role = "root" },
		`name "*.a" must`:        func(r *Request) { r.Names = []string{"*.a"} },
		`name "fe80::1%lo" must`: func(r *Request) { r.Names = []string{"fe80::1%lo"} },
		"65 names; at most 64":   func(r *Request) { r.Names = make([]string, 65) },
		"its begin is required":  func(r *Request) { r.From = time.Time{} },
		"a life of 0s":           func(r *Request) { r.Life = 0 },
		"at most 87600h0m0s":     func(r *Request) { r.Life = MaxLife + 1 },
		"after its authority":    func(r *Request) { r.Life = 31 * day },
		"an operator has no names": func(r *Request) {
			r.Role = RoleOperator
			r.Names = []string{"a"}
		},
	} {
		r := request(RoleServer, "s1")
		edit(&r)
		_, _, err := a.Issue(r)
		if err == nil || !strings.Contains(err.Error(), want) || structs.KindOf(err) != structs.KindInvalid {
			t.Errorf("got %v; want invalid with %q", err, want)
		}
	}
}

func TestSign_RejectsKeysThatCostMuch(t *testing.T) {
	a := newAuthority(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, pub := range []any{rsaKey.Public(), p521.Public(), nil} {
		_, err = a.Sign(pub, request(RoleNode, "n1"))
		if structs.KindOf(err) != structs.KindInvalid {
			t.Errorf("%T: got %v", pub, err)
		}
	}
}

func TestIdentity_ReadsBackFromACertificate(t *testing.T) {
	a := newAuthority(t)
	for _, region := range []string{"global", "eu-west_1", "a.b", "10.0.0.1", strings.Repeat("r", 63)} {
		for _, id := range []string{"n1", "a%2Fb", "ä?#&=", "a:b@c", `"q"`, strings.Repeat("x", structs.MaxName)} {
			r := request(RoleNode, id)
			r.Region = region
			got, err := IdentityOf(issue(t, a, r))
			if err != nil || got != r.Identity {
				t.Errorf("%s in %s: got %v, %v", id, region, got, err)
			}
		}
	}
}
