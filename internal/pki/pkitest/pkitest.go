// Package pkitest makes the certificates of test clusters.
package pkitest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/pki"
)

// Life is the life of the certificates of a test.
const Life = 24 * time.Hour

// Authority is an authority whose files are in the directory of a test.
type Authority struct {
	*pki.Authority
	Dir    string
	CAFile string

	between []byte // in PEM: the certificate of an authority that another one has signed
}

// New makes the authority of a region in a new directory of the test.
func New(t testing.TB, region string) *Authority {
	t.Helper()
	a, err := pki.NewAuthority(region, time.Now(), 30*Life)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	caFile := filepath.Join(dir, "ca.pem")
	Write(t, caFile, a.CertPEM())
	return &Authority{
		Authority: a,
		Dir:       dir,
		CAFile:    caFile,
	}
}

// Files are the files of one certificate.
type Files struct {
	Cert string
	Key  string
}

// Files issues a certificate that begins now.
func (a *Authority) Files(t testing.TB, role pki.Role, id string, names ...string) Files {
	t.Helper()
	return a.FilesOf(t, pki.Request{
		Identity: pki.Identity{
			Region: a.Region(),
			Role:   role,
			ID:     id,
		},
		Names: names,
		From:  time.Now(),
		Life:  Life,
	})
}

// FilesOf issues the certificate of a request. Certificates of the same role and ID have the same files: the
// later one replaces the earlier one.
func (a *Authority) FilesOf(t testing.TB, r pki.Request) Files {
	t.Helper()
	cert, key, err := a.Issue(r)
	if err != nil {
		t.Fatal(err)
	}

	base := filepath.Join(a.Dir, string(r.Role)+"-"+r.ID)
	f := Files{
		Cert: base + ".pem",
		Key:  base + "-key.pem",
	}

	Write(t, f.Cert, append(cert, a.between...))
	Write(t, f.Key, key)
	return f
}

// Write writes a file.
func Write(t testing.TB, path string, content []byte) {
	t.Helper()
	err := os.WriteFile(path, content, 0o600)
	if err != nil {
		t.Fatal(err)
	}
}
