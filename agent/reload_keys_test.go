package agent

import (
	"os"
	"testing"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

// What SIGHUP does reads the certificate again at once, and says if it cannot.
func TestReread_TakesANewCertificate(t *testing.T) {
	own := pkitest.New(t, "global")
	a := securedAgent(t, own)
	a.source = func() (*Config, error) {
		c := *a.config()
		return &c, nil
	}
	former := a.keys.Serial()
	cfg := a.config().TLS
	next := own.Files(t, pki.RoleServer, "s1")
	copyFile(t, next.Cert, cfg.CertFile)
	copyFile(t, next.Key, cfg.KeyFile)
	err := a.reread()
	if err != nil || a.keys.Serial() == former {
		t.Errorf("got error %v and the serial number %s, want the new certificate", err, a.keys.Serial())
	}

	used := a.keys.Serial()
	err = os.WriteFile(cfg.CertFile, []byte("no certificate"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	err = a.reread()
	if err == nil || a.keys.Serial() != used {
		t.Errorf("got error %v and the serial number %s, want an error and the former certificate",
			err, a.keys.Serial())
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
