package pki

import (
	"crypto/x509"
	"net/url"
	"testing"
)

func TestIdentityOf_ReadsTheOneIdentityOfACertificate(t *testing.T) {
	want := Identity{Region: "global", Role: RoleNode, ID: "n1"}
	other := &url.URL{Scheme: "https", Host: "example.com"}
	cert := &x509.Certificate{URIs: []*url.URL{other, want.URI()}}
	got, err := IdentityOf(cert)
	if err != nil || got != want {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
}

func TestIdentityOf_RejectsOtherCertificates(t *testing.T) {
	for name, uris := range map[string][]string{
		"none":          nil,
		"two":           {"spiffe://global/node/a", "spiffe://global/server/a"},
		"another role":  {"spiffe://global/root/a"},
		"no ID":         {"spiffe://global/node"},
		"no region":     {"spiffe:///node/a"},
		"a longer path": {"spiffe://global/node/a/b"},
	} {
		cert := &x509.Certificate{}
		for _, s := range uris {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		id, err := IdentityOf(cert)
		if err == nil {
			t.Errorf("%s: got %v", name, id)
		}
	}
}
