package peertls

import (
	"crypto"
	"crypto/x509"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

func TestKeys_ReplaceTheCertificateOfTheSameKeyAlone(t *testing.T) {
	a := pkitest.New(t, "global")
	keys := open(t, a, pki.RoleNode, "n1")
	der, err := keys.CSR()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.ParseCSR(der)
	if err != nil || csr.Identity != keys.Identity() {
		t.Fatalf("the request is of %v, %v", csr.Identity, err)
	}
	next, err := a.Sign(csr.Public, pki.Request{
		Identity: csr.Identity,
		From:     time.Now().Add(time.Hour),
		Life:     pkitest.Life,
	})
	if err != nil {
		t.Fatal(err)
	}

	former := keys.Expires()
	bundle := append(pkitest.New(t, "global").CertPEM(), a.CertPEM()...)
	err = keys.Replace(next, bundle)
	if err != nil || !keys.Expires().After(former) {
		t.Fatalf("the certificate ends at %s, %v", keys.Expires(), err)
	}
	for path, want := range map[string][]byte{keys.cfg.CertFile: next, a.CAFile: bundle} {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not the new one: %v", path, err)
		}
	}

	other, _, err := a.Issue(pki.Request{Identity: csr.Identity, From: time.Now(), Life: pkitest.Life})
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string][2][]byte{
		"the certificate of another key": {other, bundle},
		"no certificate":                 {nil, bundle},
		"no authorities":                 {next, nil},
		"authorities of others alone":    {next, pkitest.New(t, "global").CertPEM()},
	} {
		if keys.Replace(answer[0], answer[1]) == nil {
			t.Errorf("%s was taken", name)
		}
	}
	got, err := os.ReadFile(keys.cfg.CertFile)
	if err != nil || string(got) != string(next) {
		t.Error("a rejected answer has changed the file")
	}
	got, err = os.ReadFile(a.CAFile)
	if err != nil || string(got) != string(bundle) {
		t.Error("a rejected answer has changed the authorities")
	}
}

func TestKeys_RenewAtTwoThirdsOfTheLife(t *testing.T) {
	a := pkitest.New(t, "global")
	keys := open(t, a, pki.RoleNode, "n1")
	if got := keys.Expires().Sub(keys.RenewAt()); got != pkitest.Life/3 {
		t.Errorf("%s before the end; want %s", got, pkitest.Life/3)
	}
}

// A certificate of the servers begins with the one that it has replaced, which changes nothing.
func TestLifeOf_CountsFromTheSignature(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct{ life, want time.Duration }{
		{time.Hour, time.Hour},
		{day, day},
		{31 * day, day},        // it has replaced one that ended a month ago
		{365 * day, 365 * day}, // an operator has made it
	} {
		begin := time.Now()
		if got := LifeOf(&x509.Certificate{NotBefore: begin, NotAfter: begin.Add(c.life)}); got != c.want {
			t.Errorf("of %s: got %s, want %s", c.life, got, c.want)
		}
	}
}

// A clock that was ahead for some minutes has left a certificate that begins tomorrow.
func TestOpen_OfACertificateThatHasNotBegun(t *testing.T) {
	a := pkitest.New(t, "global")
	keys := open(t, a, pki.RoleServer, "s1")
	keys.cfg.Renew = true
	first := keys.Serial()
	key := keys.current.Load().cert.PrivateKey.(crypto.Signer)
	sign := func(from time.Time) []byte {
		cert, err := a.Sign(key.Public(), pki.Request{Identity: keys.Identity(), From: from, Life: pkitest.Life})
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	err := keys.Replace(sign(time.Now()), a.CertPEM())
	if err != nil || keys.Serial() == first {
		t.Fatalf("the certificate is still %s, %v", keys.Serial(), err)
	}

	ahead := sign(time.Now().Add(30 * time.Hour))
	pkitest.Write(t, keys.cfg.CertFile, ahead)
	former := keys.cfg.CertFile + formerSuffix
	changed, err := keys.Reload()
	if err != nil || !changed || keys.Serial() != first ||
		keys.Lapsed(time.Now()) || !keys.Premature(time.Now()) {
		t.Errorf("a running agent does not take its former certificate: changed %v, %v", changed, err)
	}
	changed, err = keys.Reload()
	if err != nil || changed {
		t.Errorf("without a change: changed %v, %v", changed, err)
	}

	for name, c := range map[string]struct {
		renew        bool
		former       []byte
		opens, valid bool
	}{
		"the former one is valid":                     {false, sign(time.Now()), true, true},
		"the former one has ended, and it is renewed": {true, sign(time.Now().Add(-2 * pkitest.Life)), true, false},
		"the former one has ended":                    {false, sign(time.Now().Add(-2 * pkitest.Life)), false, false},
		"the former one is damaged":                   {true, []byte("nothing"), true, false},
		"of another authority":                        {true, foreign(t, key, keys.Identity()), true, false},
	} {
		pkitest.Write(t, former, c.former)
		cfg := keys.cfg
		cfg.Renew = c.renew
		opened, err := Open(cfg, "global", pki.RoleServer, hclog.NewNullLogger())
		if (err == nil) != c.opens {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (opened.Lapsed(time.Now()) == c.valid || !opened.Premature(time.Now())) {
			t.Errorf("%s: it lapsed: %v, begins later: %v", name, opened.Lapsed(time.Now()),
				opened.Premature(time.Now()))
		}
	}

	// The renewal keeps the former certificate, and not the one of the wrong clock.
	pkitest.Write(t, former, sign(time.Now()))
	_, err = keys.Reload()
	if err == nil {
		err = keys.Replace(sign(time.Now()), a.CertPEM())
	}
	kept, readErr := os.ReadFile(former)
	if err != nil || readErr != nil || string(kept) == string(ahead) || keys.Premature(time.Now()) {
		t.Errorf("after the renewal: %v, %v", err, readErr)
	}
}

// foreign signs with an authority of its own.
func foreign(t *testing.T, key crypto.Signer, id pki.Identity) []byte {
	t.Helper()
	cert, err := pkitest.New(t, "global").Sign(key.Public(), pki.Request{
		Identity: id,
		From:     time.Now(),
		Life:     pkitest.Life,
	})
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestOpen_TakesACertificateThatHasEndedIfItIsRenewed(t *testing.T) {
	a := pkitest.New(t, "global")
	files := a.FilesOf(t, pki.Request{
		Identity: pki.Identity{Region: "global", Role: pki.RoleNode, ID: "n1"},
		From:     time.Now().Add(-50 * time.Minute),
		Life:     time.Minute,
	})
	other := pkitest.New(t, "global")
	for name, c := range map[string]struct {
		renew bool
		ca    string
		taken bool
	}{
		"renewed":                       {true, a.CAFile, true},
		"not renewed":                   {false, a.CAFile, false},
		"renewed, of another authority": {true, other.CAFile, false},
	} {
		keys, err := Open(Config{
			Mode:     ModeRequire,
			CAFile:   c.ca,
			CertFile: files.Cert,
			KeyFile:  files.Key,
			Renew:    c.renew,
		}, "global", pki.RoleNode, hclog.NewNullLogger())
		if (err == nil) != c.taken {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && !keys.Lapsed(time.Now()) {
			t.Errorf("%s: it counts as valid", name)
		}
	}
}

func TestKeys_NamesAreThoseBesideTheRole(t *testing.T) {
	a := pkitest.New(t, "global")
	files := a.Files(t, pki.RoleServer, "s1", "s1.example.com", "10.0.0.1", "2001:db8::1")
	keys, err := Open(Config{
		Mode:     ModeRequire,
		CAFile:   a.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}, "global", pki.RoleServer, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"s1.example.com", "10.0.0.1", "2001:db8::1"}
	if got := keys.Names(); !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

// Renewals of the agent and of an operator meet while the authority changes. The files fit each other after
// each of them.
func TestKeys_ReplaceOneAfterTheOther(t *testing.T) {
	a := pkitest.New(t, "global")
	keys := open(t, a, pki.RoleServer, "s1")
	var replacing sync.WaitGroup
	for range 8 {
		other := pkitest.New(t, "global")
		next, err := other.Sign(keys.Certificate().PublicKey, pki.Request{
			Identity: keys.Identity(),
			From:     time.Now(),
			Life:     pkitest.Life,
		})
		if err != nil {
			t.Fatal(err)
		}
		replacing.Go(func() {
			err := keys.Replace(next, other.CertPEM())
			if err != nil {
				t.Error(err)
			}
		})
	}
	replacing.Wait()
	_, err := Open(keys.cfg, "global", pki.RoleServer, hclog.NewNullLogger())
	if err != nil {
		t.Error(err)
	}
}
