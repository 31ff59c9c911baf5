package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"berth/structs"
)

// mustReplace replaces an authority at the begin. The cross certificate lives for ten days.
func mustReplace(t *testing.T, a *Authority) (next *Authority, cross *x509.Certificate) {
	t.Helper()
	next, crossPEM, err := a.Replace(Successor{Region: "global", From: begin, Life: 60 * day, Cross: 10 * day})
	if err != nil {
		t.Fatal(err)
	}
	certs, err := ParseCertificates(crossPEM)
	if err != nil {
		t.Fatal(err)
	}
	return next, certs[0]
}

// verifyAt verifies the first certificate of a chain by one authority, some time after the begin.
func verifyAt(after time.Duration, by *Authority, chain ...*x509.Certificate) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(by.Cert)
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: between,
		CurrentTime:   begin.Add(after),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

// An authority that is made under a clock that is ahead is valid when the clock is right again.
func TestReplace_TheNextAuthorityBeginsNoLaterThanTheFormer(t *testing.T) {
	former := newAuthority(t)
	next, cross, err := former.Replace(Successor{
		Region: "global",
		From:   begin.Add(3 * day),
		Life:   60 * day,
		Cross:  10 * day,
	})
	if err != nil {
		t.Fatal(err)
	}
	certs, err := ParseCertificates(cross)
	if err != nil {
		t.Fatal(err)
	}
	for name, cert := range map[string]*x509.Certificate{
		"the authority":         next.Cert,
		"the cross certificate": certs[0],
	} {
		if cert.NotBefore.After(former.Cert.NotBefore) {
			t.Errorf("%s begins at %s, after %s", name, cert.NotBefore, former.Cert.NotBefore)
		}
	}
}

func TestReplace_HoldersOfEachFormerAuthorityVerifyTheChain(t *testing.T) {
	first := newAuthority(t)
	second, cross2 := mustReplace(t, first)
	third, cross3 := mustReplace(t, second)
	leaf := issue(t, third, request(RoleNode, "n1"))
	for name, c := range map[string]struct {
		by    *Authority
		chain []*x509.Certificate
		taken bool
	}{
		"the new one":                {third, []*x509.Certificate{leaf}, true},
		"its predecessor":            {second, []*x509.Certificate{leaf, cross3}, true},
		"the first":                  {first, []*x509.Certificate{leaf, cross3, cross2}, true},
		"the first, without a chain": {first, []*x509.Certificate{leaf}, false},
		"the first, with a gap":      {first, []*x509.Certificate{leaf, cross3}, false},
		"another one":                {newAuthority(t), []*x509.Certificate{leaf, cross3, cross2}, false},
	} {
		err := verifyAt(time.Minute, c.by, c.chain...)
		if (err == nil) != c.taken {
			t.Errorf("%s: %v; expected that it verifies: %v", name, err, c.taken)
		}
	}
	if third.Cert.Subject.String() == second.Cert.Subject.String() || third.Region() != "global" {
		t.Errorf("the subject %q of the region %q is that of the former one", third.Cert.Subject, third.Region())
	}
}

func TestReplace_TheCrossCertificateEndsWithItsTimeAndWithTheFormerAuthority(t *testing.T) {
	a := newAuthority(t)
	next, cross := mustReplace(t, a)
	if got := cross.NotAfter.Sub(begin); got != 10*day {
		t.Errorf("it ends after %s; expected 10 days", got)
	}
	late := Successor{Region: "global", From: begin.Add(55 * day), Life: 60 * day, Cross: 10 * day}
	_, crossPEM, err := next.Replace(late)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := ParseCertificates(crossPEM)
	if err != nil || !certs[0].NotAfter.Equal(next.Cert.NotAfter) {
		t.Errorf("it ends on %s, after its authority, %v", certs[0].NotAfter, err)
	}
	late.From = begin.Add(30 * day)
	_, _, err = a.Replace(late)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("an authority that has ended: %v; expected precondition", err)
	}
}

// The key of a certificate of a machine must sign for nobody, although authorities allow others below them.
func TestReplace_ACertificateOfAMachineSignsNoOther(t *testing.T) {
	first := newAuthority(t)
	second, cross := mustReplace(t, first)
	certPEM, keyPEM, err := second.Issue(request(RoleNode, "n1"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	victim, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	pub := victim.signer.Public()
	der, err := x509.CreateCertificate(rand.Reader, request(RoleServer, "s1").template(pub), pair.Leaf, pub,
		pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]*Authority{"its authority": second, "the former one": first} {
		if verifyAt(time.Minute, by, pair.Leaf, cross) != nil {
			t.Errorf("%s does not verify the certificate of the node", name)
		}
		if verifyAt(time.Minute, by, forged, pair.Leaf, cross) == nil {
			t.Errorf("%s verifies a certificate that a node has signed", name)
		}
	}
}

func TestAllowsBelow_KeepsThePathLength(t *testing.T) {
	for name, c := range map[string]struct {
		cert    x509.Certificate
		allowed int // the most authorities below it
	}{
		"no limit":  {x509.Certificate{}, 100},
		"unset":     {x509.Certificate{MaxPathLen: -1}, 100},
		"none":      {x509.Certificate{MaxPathLenZero: true}, 0},
		"one below": {x509.Certificate{MaxPathLen: 1}, 1},
	} {
		if !AllowsBelow(&c.cert, c.allowed) || c.allowed < 100 && AllowsBelow(&c.cert, c.allowed+1) {
			t.Errorf("%s: expected at most %d", name, c.allowed)
		}
	}
}
