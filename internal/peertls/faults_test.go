package peertls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

func TestPlainFault_NamesTheAuthorityThatHasExpired(t *testing.T) {
	begin := time.Now().Add(-3 * time.Hour)
	a, err := pki.NewAuthority("global", begin, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{NotBefore: begin, NotAfter: begin.Add(24 * time.Hour)}
	fault := x509.CertificateInvalidError{Cert: a.Cert, Reason: x509.Expired}
	text := plainFault(fault, leaf).Error()
	if !strings.Contains(text, `the authority "CN=berth CA,O=global" of the certificate expired at`) {
		t.Error(text)
	}
}

func TestKeys_TellThatTheyEnd(t *testing.T) {
	keys := open(t, pkitest.New(t, "global"), pki.RoleServer, "s1")
	const byHand = "put a new one into the same files"
	fault := errors.New("no leader")
	for _, c := range []struct {
		renew bool
		fault error
		after time.Duration
		want  []string
	}{
		{false, nil, -time.Minute, []string{"[WARN]", "ends soon", byHand}},
		{false, nil, time.Minute, []string{"[ERROR]", "has expired", byHand}},
		{true, nil, -time.Minute, []string{"[WARN]", "ends soon", "goes on trying", "none yet"}},
		{true, fault, -time.Minute, []string{"[WARN]", "ends soon", "goes on trying", "no leader"}},
		{true, fault, time.Minute, []string{"[ERROR]", "has expired", "goes on trying", "no leader"}},
		{true, nil, time.Minute, []string{"[ERROR]", "has expired", "goes on trying", "none yet"}},
	} {
		var b bytes.Buffer
		keys.logger = hclog.New(&hclog.LoggerOptions{Output: &b})
		keys.cfg.Renew = c.renew
		keys.NoteRenewal(c.fault)
		keys.tellEnd(keys.Expires().Add(c.after))
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%+v: %q is missing in %s", c, want, b.String())
			}
		}
		if c.renew == strings.Contains(b.String(), byHand) {
			t.Errorf("%+v: %s", c, b.String())
		}
	}
}

func TestDial_BlamesTheCertificateForItsOwnAlertsAlone(t *testing.T) {
	a := pkitest.New(t, "global")
	keys := open(t, a, pki.RoleServer, "s1")
	old := func(conn *Conn) *tls.Config {
		config := keys.Client(Roles(pki.RoleServer))(conn)
		config.MinVersion = tls.VersionTLS12
		config.MaxVersion = tls.VersionTLS12
		return config
	}
	_, err := dial(t, dialing(echo(t, keys.Server(Roles(pki.RoleServer))), old, false))
	if err == nil || strings.Contains(err.Error(), "rejected the certificate") ||
		!strings.Contains(err.Error(), "protocol version") {
		t.Errorf("another version: %v", err)
	}
}

func TestOpen_WarnsOfAKeyThatOthersMayRead(t *testing.T) {
	a := pkitest.New(t, "global")
	files := a.Files(t, pki.RoleServer, "s1")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o602: true} {
		err := os.Chmod(files.Key, mode)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, err = Open(configOf(a, files), "global", pki.RoleServer, hclog.New(&hclog.LoggerOptions{Output: &b}))
		if warned := strings.Contains(b.String(), "every user of this machine"); err != nil || warned != want {
			t.Errorf("mode %o: warned %v, %v", mode, warned, err)
		}
	}
}
