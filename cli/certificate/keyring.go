package certificate

import (
	"errors"
	"os"

	"berth/internal/keyring"
	"berth/internal/pki"
	"berth/structs"
)

// keyringFile has the key-encryption key of the servers. A server whose file of that name has another key
// gets otherKeyringFile: its token is used up then, and it needs the key of the others.
const (
	keyringFile      = "keyring"
	otherKeyringFile = "keyring-of-servers"
)

// beginKeyring takes the key-encryption key in the directory of the first server, or makes one with a copy.
func (m *Machine) beginKeyring(copied KeyCopy) error {
	err := m.findKeyring()
	if err != nil {
		return err
	}

	key := m.found
	if key == nil {
		key = keyring.NewFileKey()
	}

	m.keyring = key.Text()
	return copied.Write(m.keyring)
}

// findKeyring reads the key-encryption key that the directory of a server has already.
func (m *Machine) findKeyring() error {
	if m.role != pki.RoleServer {
		return nil
	}

	key, err := keyring.ReadFile(m.path(keyringFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return structs.Invalidf("the key-encryption key %s: %w; mend the file, or move it away",
			m.path(keyringFile), err)
	}

	m.found = key
	return nil
}

// hasKeyring reports whether the directory has the key-encryption key of the servers already.
func (m *Machine) hasKeyring() bool {
	if m.found == nil {
		return false
	}
	key, err := keyring.ParseFileKey(m.keyring)
	return err == nil && key.ID() == m.found.ID()
}

// keyringPath returns the path of the key-encryption key of the servers on this machine.
func (m *Machine) keyringPath() string {
	if m.found == nil || m.hasKeyring() {
		return m.path(keyringFile)
	}
	return m.path(otherKeyringFile)
}
