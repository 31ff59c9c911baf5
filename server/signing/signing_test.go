package signing

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/server/authority"
	"berth/server/keys"
	"berth/state"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// testCluster has the rows of a cluster with one root key, and the settings of its keyring.
type testCluster struct {
	t *testing.T
	*oneserver.Log
	ring     *keyring.Ring
	settings *keys.Settings
}

func newCluster(t *testing.T) *testCluster {
	t.Helper()
	kek := keyring.NewFileKey()
	c := &testCluster{
		t:        t,
		Log:      oneserver.NewLog(),
		ring:     &keyring.Ring{},
		settings: &keys.Settings{Source: keys.Source{File: filepath.Join(t.TempDir(), "keyring")}},
	}
	pkitest.Write(t, c.settings.File, kek.Text())
	key := bytes.Repeat([]byte{7}, keyring.KeySize)
	wrapped, err := kek.Wrap("k1", key)
	if err == nil {
		err = c.ring.Add("k1", key)
	}
	if err == nil {
		err = c.ring.Use("k1")
	}
	if err != nil {
		t.Fatal(err)
	}
	oneserver.Put(c.t, c, fsm.RootKeyAdd, &cluster.RootKeyAddRequest{
		KeyID:   "k1",
		Wrapped: wrapped,
		KEK:     kek.ID(),
		Digest:  keys.Digest("k1", key),
		Now:     1,
	})
	return c
}

// add takes an authority in, the first of the cluster.
func (c *testCluster) add() *pkitest.Authority {
	c.t.Helper()
	a := pkitest.New(c.t, "global")
	c.take(a.Authority)
	return a
}

// take stores an authority, as the first leader does.
func (c *testCluster) take(a *pki.Authority) {
	c.t.Helper()
	id := pki.AuthorityID(a.Cert)
	keyPEM, err := a.KeyPEM()
	if err != nil {
		c.t.Fatal(err)
	}
	sealed, err := c.ring.Seal(cluster.AuthorityPlace(id), keyPEM)
	if err != nil {
		c.t.Fatal(err)
	}
	oneserver.Put(c.t, c, fsm.AuthoritySet, &cluster.AuthorityRequest{
		ID:      id,
		CertPEM: string(a.CertPEM()),
		Key:     sealed,
		Now:     time.Now().UnixNano(),
	})
}

// replace replaces the authority as the leader does.
func (c *testCluster) replace() *pki.Authority {
	c.t.Helper()
	leader := authority.Signer{Rows: authority.RowsOf(c.Store), Keys: c.ring, Now: time.Now}
	next, err := leader.Next("global")
	if err != nil {
		c.t.Fatal(err)
	}
	oneserver.Put(c.t, c, fsm.AuthoritySet, next)
	a, err := leader.Active()
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// signer returns the signer of a server with some rows.
func (c *testCluster) signer(dir string, store *state.Store, ring *keyring.Ring) *Signer {
	return New(Deps{
		Dir:     dir,
		Store:   store,
		Keys:    ring,
		Keyring: c.settings,
		Logger:  hclog.NewNullLogger(),
	})
}

// sign returns the certificate that a signer signs, and the authorities to trust.
func sign(t *testing.T, s *Signer, names ...string) (cert []byte, trusted string, err error) {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.CSR(pki.Identity{Region: "global", Role: pki.RoleServer, ID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	pem, trusted, err := s.Sign(t.Context(), csr, Former{Names: names, End: time.Now()})
	return []byte(pem), trusted, err
}

// mustBeOf fails unless an authority has signed a certificate.
func mustBeOf(t *testing.T, cert []byte, a *pki.Authority) {
	t.Helper()
	parsed, err := pki.ParseCertificates(cert)
	if err != nil || parsed[0].CheckSignatureFrom(a.Cert) != nil {
		t.Errorf("the certificate is not of the authority: %v", err)
	}
}

func TestSigner_SignsWithTheCopyBeforeItHasTheRows(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	first := c.add()
	err := c.signer(dir, c.Store, c.ring).keep()
	if err != nil {
		t.Fatal(err)
	}

	started := c.signer(dir, state.New(), &keyring.Ring{})
	cert, trusted, err := sign(t, started, "s1.example.com")
	if err != nil || trusted != string(first.CertPEM()) {
		t.Fatalf("trusts %q, %v", trusted, err)
	}
	mustBeOf(t, cert, first.Authority)
	if ids := started.Trusted(); len(ids) != 1 || ids[0] != pki.AuthorityID(first.Cert) {
		t.Errorf("the authorities %q are trusted; expected that of the copy", ids)
	}
	parsed, err := pki.ParseCertificates(cert)
	if err != nil || parsed[0].VerifyHostname("s1.example.com") != nil {
		t.Errorf("the names of the certificate are not kept: %v", err)
	}
	err = started.keep()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = sign(t, started)
	if err != nil {
		t.Errorf("a server without rows has removed the copy: %v", err)
	}
}

// A server whose clock is ahead signs a certificate that is valid when the clock is right again.
func TestSigner_ANewCertificateBeginsNoLaterThanTheFormer(t *testing.T) {
	c := newCluster(t)
	c.add()
	s := c.signer(t.TempDir(), c.Store, c.ring)
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.CSR(pki.Identity{Region: "global", Role: pki.RoleServer, ID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	// Seen from the clock that is ahead, the former one ended hours ago.
	for _, ahead := range []time.Duration{0, 30 * time.Hour, 20 * 24 * time.Hour} {
		text, _, err := s.Sign(t.Context(), csr, Former{End: now.Add(8*time.Hour - ahead)})
		if err != nil {
			t.Fatal(err)
		}
		certs, err := pki.ParseCertificates([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if right := now.Add(-ahead); certs[0].NotBefore.After(right) {
			t.Errorf("%s ahead: it begins at %s, after %s", ahead, certs[0].NotBefore, right)
		}
	}
}

func TestSigner_OlderRowsDoNotReplaceTheCopy(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	c.add()
	var snapshot bytes.Buffer
	err := c.Store.Save(&snapshot)
	if err != nil {
		t.Fatal(err)
	}
	second := c.replace()
	err = c.signer(dir, c.Store, c.ring).keep()
	if err != nil {
		t.Fatal(err)
	}

	old := state.New()
	err = old.Load(&snapshot)
	if err != nil {
		t.Fatal(err)
	}
	started := c.signer(dir, old, c.ring)
	err = started.keep()
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := sign(t, started)
	if err != nil {
		t.Fatal(err)
	}
	mustBeOf(t, cert, second)
}

func TestSigner_NewerRowsReplaceTheCopy(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	s := c.signer(dir, c.Store, c.ring)
	c.add()
	err := s.keep()
	if err != nil {
		t.Fatal(err)
	}
	second := c.replace()
	cert, _, err := sign(t, s)
	if err != nil {
		t.Fatal(err)
	}
	mustBeOf(t, cert, second)
	err = s.keep()
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err = sign(t, c.signer(dir, state.New(), &keyring.Ring{}))
	if err != nil {
		t.Fatal(err)
	}
	mustBeOf(t, cert, second)
}

func TestSigner_TheCopyIsOfNoUseWithoutTheKeyring(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	a := c.add()
	err := c.signer(dir, c.Store, c.ring).keep()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	secret := bytes.Split(keyPEM, []byte("\n"))[1] // of the key in base64
	if bytes.Contains(content, secret) || bytes.Contains(content, bytes.Repeat([]byte{7}, keyring.KeySize)) {
		t.Error("the copy has a key in plain")
	}

	pkitest.Write(t, c.settings.File, keyring.NewFileKey().Text())
	_, _, err = sign(t, c.signer(dir, state.New(), &keyring.Ring{}))
	if err == nil {
		t.Error("another keyring opens the copy")
	}
}

func TestSigner_ADamagedCopyDoesNotHinderTheRows(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	a := c.add()
	pkitest.Write(t, filepath.Join(dir, fileName), []byte("damaged"))
	s := c.signer(dir, c.Store, c.ring)
	cert, _, err := sign(t, s)
	if err != nil {
		t.Fatal(err)
	}
	mustBeOf(t, cert, a.Authority)
	err = s.keep()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = sign(t, c.signer(dir, state.New(), &keyring.Ring{}))
	if err != nil {
		t.Errorf("the copy was not written again: %v", err)
	}
}
