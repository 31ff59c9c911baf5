package pki

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestParseCertificates_RejectsADamagedOne(t *testing.T) {
	good, other := newAuthority(t).CertPEM(), newAuthority(t).CertPEM()
	certs, err := ParseCertificates(slices.Concat([]byte("a note\n"), good, other))
	if err != nil || len(certs) != 2 {
		t.Fatalf("got %d, %v", len(certs), err)
	}
	for name, c := range map[string]struct {
		content []byte
		text    string
	}{
		"no DER":    {slices.Concat(good, encodeCert([]byte("x"))), "damaged certificate, number 2"},
		"no base64": {slices.Concat(good, bytes.Replace(other, []byte("MII"), []byte("M!I"), 1)), "begins 2"},
		"half":      {slices.Concat(good, other[:len(other)/2]), "begins 2"},
		"nothing":   {nil, "no certificate"},
	} {
		_, err := ParseCertificates(c.content)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
