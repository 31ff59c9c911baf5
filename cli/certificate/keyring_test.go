package certificate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/keyring"
	"berth/internal/pki"
)

// joined returns the files of a server that joins servers with a key, into a directory with its own key.
func joined(t *testing.T, own, servers *keyring.FileKey) *Machine {
	t.Helper()
	m := &Machine{
		dir:    t.TempDir(),
		role:   pki.RoleServer,
		joined: true,
	}
	err := own.WriteNew(m.path(keyringFile))
	if err == nil {
		err = m.findKeyring()
	}
	m.keyring = servers.Text()
	if err == nil {
		err = m.write()
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustReadKey(t *testing.T, path, want string) {
	t.Helper()
	key, err := keyring.ReadFile(path)
	if err != nil || key.ID() != want {
		t.Errorf("%s has the key %v, want %s, error %v", path, key, want, err)
	}
}

// The token of a server is used up before it learns the key of the servers. So it gets that key also where
// its directory has another one, which stays.
func TestJoin_GivesTheKeyOfTheServersBesideAnother(t *testing.T) {
	own, servers := keyring.NewFileKey(), keyring.NewFileKey()
	m := joined(t, own, servers)
	other := filepath.Join(m.dir, otherKeyringFile)
	mustReadKey(t, m.path(keyringFile), own.ID())
	mustReadKey(t, other, servers.ID())
	if !strings.Contains(m.settings(), other) {
		t.Errorf("the settings are\n%s", m.settings())
	}

	again := &Machine{
		dir:  t.TempDir(),
		role: pki.RoleServer,
	}
	if err := servers.WriteNew(again.path(otherKeyringFile)); err != nil {
		t.Fatal(err)
	}
	if err := again.checkNew(); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second time: %v", err)
	}
}

func TestJoin_KeepsTheSameKey(t *testing.T) {
	own := keyring.NewFileKey()
	m := joined(t, own, own)
	mustReadKey(t, m.path(keyringFile), own.ID())
	if _, err := os.Stat(m.path(otherKeyringFile)); err == nil {
		t.Errorf("there is a second file of the same key")
	}
	if !strings.Contains(m.settings(), m.path(keyringFile)+`"`) {
		t.Errorf("the settings are\n%s", m.settings())
	}
}
