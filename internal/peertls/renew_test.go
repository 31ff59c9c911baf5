package peertls

import (
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
	leaf := keys.current.Load().cert.Leaf
	if got, want := keys.RenewAt().Sub(leaf.NotBefore), (pkitest.Life+time.Hour)*2/3; got != want {
		t.Errorf("%s after the begin; want %s", got, want)
	}
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
