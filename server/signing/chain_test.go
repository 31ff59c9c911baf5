package signing

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/server/authority"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// A certificate leads to each authority that machines still trust, and to no other.
func TestSigner_TheChainLeadsToTheTrustedAuthoritiesAlone(t *testing.T) {
	c := newCluster(t)
	first := c.add().Authority
	second := c.replace()
	third := c.replace()
	s := c.signer(t.TempDir(), c.Store, c.ring)
	mustTrust(t, s, third, second, first)

	oneserver.Put(c.t, c, fsm.AuthorityRemove, &cluster.AuthorityRemoveRequest{ID: pki.AuthorityID(first.Cert)})
	mustTrust(t, s, third, second)
	mustNotLeadTo(t, s, first)
	fourth := c.replace()
	oneserver.Put(c.t, c, fsm.AuthorityRemove, &cluster.AuthorityRemoveRequest{ID: pki.AuthorityID(third.Cert)})
	mustTrust(t, s, fourth)
	mustNotLeadTo(t, s, second)
}

// Rows that do not know the authority of a certificate are older than it.
func TestSigner_FollowsNoRowsOlderThanTheCertificate(t *testing.T) {
	c := newCluster(t)
	first := pki.AuthorityID(c.add().Cert)
	second := pki.AuthorityID(c.replace().Cert)
	s := c.signer(t.TempDir(), c.Store, c.ring)
	oneserver.Put(c.t, c, fsm.AuthorityRemove, &cluster.AuthorityRemoveRequest{ID: first})
	for issuer, want := range map[string][]string{
		second:  {second},
		first:   {second}, // removed, and known
		"":      {second},
		"later": nil,
	} {
		if got := s.Follows(issuer); !slices.Equal(got, want) {
			t.Errorf("a certificate of %q follows %q; expected %q", issuer, got, want)
		}
	}
}

// A server needs no root key to know which authorities are removed.
func TestSigner_NamesTheRemovedAuthorities(t *testing.T) {
	c := newCluster(t)
	first := pki.AuthorityID(c.add().Cert)
	second := pki.AuthorityID(c.replace().Cert)
	c.replace()
	s := c.signer(t.TempDir(), c.Store, &keyring.Ring{})
	for _, step := range []struct {
		remove string
		want   []string
	}{
		{"", nil},
		{first, []string{first}},
		{second, []string{second, first}},
	} {
		if step.remove != "" {
			oneserver.Put(c.t, c, fsm.AuthorityRemove, &cluster.AuthorityRemoveRequest{ID: step.remove})
		}
		if got := s.Removed(); !slices.Equal(got, step.want) {
			t.Errorf("after the removal of %q: %q; expected %q", step.remove, got, step.want)
		}
	}
}

// mustTrust fails unless a signer trusts some authorities alone, and each of them verifies what it signs.
func mustTrust(t *testing.T, s *Signer, trusted ...*pki.Authority) {
	t.Helper()
	cert, text, err := sign(t, s)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	var ids []string
	for _, a := range trusted {
		want += string(a.CertPEM())
		ids = append(ids, pki.AuthorityID(a.Cert))
		err := verify(t, cert, a)
		if err != nil {
			t.Errorf("%s does not verify the certificate: %v", a.Cert.Subject, err)
		}
	}
	if got := s.Trusted(); text != want || !slices.Equal(got, ids) {
		t.Errorf("the signer trusts %q; expected %q, and the same in PEM", got, ids)
	}
}

func mustNotLeadTo(t *testing.T, s *Signer, a *pki.Authority) {
	t.Helper()
	cert, _, err := sign(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if verify(t, cert, a) == nil {
		t.Errorf("the certificate leads to %s", a.Cert.Subject)
	}
}

// verify verifies the first certificate of a chain in PEM by one authority.
func verify(t *testing.T, chain []byte, by *pki.Authority) error {
	t.Helper()
	certs, err := pki.ParseCertificates(chain)
	if err != nil {
		t.Fatal(err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(by.Cert)
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	_, err = certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}

// An authority that allows none below it cannot sign for its successor: its machines would take no
// certificate of it.
func TestNext_RejectsAnAuthorityWithAPathLength(t *testing.T) {
	for length, replacements := range map[int]int{0: 0, 1: 1} {
		c := newCluster(t)
		c.take(pkitest.NewLimited(t, length))
		for range replacements {
			c.replace()
		}
		leader := authority.Signer{Rows: authority.RowsOf(c.Store), Keys: c.ring, Now: time.Now}
		_, err := leader.Next("global")
		if !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("path length %d: %v after %d replacements; expected precondition", length, err, replacements)
		}
	}
}
