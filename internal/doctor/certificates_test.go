package doctor

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/test/kit"
)

// worst returns the worst result.
func worst(findings []Finding) Result {
	order := []Result{OK, Skip, Warn, Fail}
	last := 0
	for _, f := range findings {
		last = max(last, slices.Index(order, f.Result))
	}
	return order[last]
}

// authorityUntil makes the certificate of an authority that ends at a time.
func authorityUntil(t *testing.T, end time.Time) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	kit.Must(t, err)
	c := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             end.Add(-time.Hour),
		NotAfter:              end,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	kit.Must(t, err)
	return der
}

func TestCheckCertificates_FindsFaults(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name   string
		result Result
		text   string
		edit   func(t *testing.T, m *Machine)
	}{
		{"valid", OK, "valid until", func(*testing.T, *Machine) {}},
		{"ended", Fail, "the certificate has ended", func(_ *testing.T, m *Machine) { m.now = m.now.Add(pkitest.Life) }},
		{"begins", Fail, "the certificate begins", func(_ *testing.T, m *Machine) {
			m.TLS.Renew = false
			m.now = m.now.Add(-48 * hour)
		}},
		{"begins, and is renewed", Warn, "the clock was ahead", func(_ *testing.T, m *Machine) {
			m.now = m.now.Add(-48 * hour)
		}},
		{"not renewed", Warn, "has not renewed its certificate", func(_ *testing.T, m *Machine) {
			m.now = m.now.Add(pkitest.Life * 9 / 10)
		}},
		{"no renewal", Warn, "tls.renew is not set", func(_ *testing.T, m *Machine) { m.TLS.Renew = false }},
		{"no key", Fail, "tls.cert_file, tls.key_file", func(_ *testing.T, m *Machine) { m.TLS.KeyFile = "/none" }},
		{"open key", Fail, "others may read", func(t *testing.T, m *Machine) {
			kit.Must(t, os.Chmod(m.TLS.KeyFile, 0o644))
		}},
		{"no authority", Fail, "tls.ca_file", func(_ *testing.T, m *Machine) { m.TLS.CAFile = "/none" }},
		{"other authority", Fail, "no authority of tls.ca_file", func(t *testing.T, m *Machine) {
			m.TLS.CAFile = pkitest.New(t, "global").CAFile
		}},
		{"damaged chain", Fail, "tls.cert_file: ", func(t *testing.T, m *Machine) {
			f, err := os.OpenFile(m.TLS.CertFile, os.O_APPEND|os.O_WRONLY, 0)
			kit.Must(t, err)
			_, err = f.WriteString("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
			kit.Must(t, errors.Join(err, f.Close()))
		}},
		{"ended authority", Fail, "the certificate has ended", func(_ *testing.T, m *Machine) {
			m.now = m.now.Add(100 * 365 * 24 * hour)
		}},
		// It was replaced by the other authority of the file.
		{"former authority", Warn, "an authority has ended", func(t *testing.T, m *Machine) {
			f, err := os.OpenFile(m.TLS.CAFile, os.O_APPEND|os.O_WRONLY, 0)
			kit.Must(t, err)
			kit.Must(t, pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: authorityUntil(t, m.now.Add(-hour))}))
			kit.Must(t, f.Close())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			authority := pkitest.New(t, "global")
			files := authority.Files(t, pki.RoleServer, "s1")
			m := newMachine(t)
			m.TLS = peertls.Config{
				Mode:     peertls.ModeRequire,
				CAFile:   authority.CAFile,
				CertFile: files.Cert,
				KeyFile:  files.Key,
				Renew:    true,
			}
			c.edit(t, m)
			got := findings(t, m, "certificates")
			is := func(f Finding) bool { return f.Result == c.result && strings.Contains(f.Text, c.text) }
			if !slices.ContainsFunc(got, is) || worst(got) != c.result {
				t.Errorf("got %+v, want %s with %q", got, c.result, c.text)
			}
		})
	}
}

func TestCheckCertificates_FollowsAChain(t *testing.T) {
	authority := pkitest.NewBetween(t, "global")
	files := authority.Files(t, pki.RoleServer, "s1")
	m := newMachine(t)
	m.TLS = peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   authority.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
		Renew:    true,
	}
	if got := findings(t, m, "certificates"); got[0].Result != OK {
		t.Errorf("got %+v", got)
	}
}
