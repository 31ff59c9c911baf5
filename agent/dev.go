package agent

import (
	"os"
	"path/filepath"

	"berth/internal/keyring"
	"berth/structs"
)

// devKeyring returns the file of the key-encryption key of -dev. Unlike a cluster's it is in the data
// directory: both are temporary.
func devKeyring(dataDir string) string { return filepath.Join(dataDir, "keyring") }

// usesDevKeyring reports whether no setting names the key-encryption key.
func (c *Config) usesDevKeyring() bool {
	return c.Dev && c.Server.Enabled && c.Server.Keyring.File == devKeyring(c.DataDir)
}

// makeDevKeyring makes the key-encryption key of -dev, unless the file is there or a setting names another.
func makeDevKeyring(c *Config) error {
	if !c.usesDevKeyring() {
		return nil
	}

	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return structs.Internalf("data_dir: %w", err)
	}

	err := keyring.NewFileKey().WriteNew(devKeyring(c.DataDir))

	// The data directory of an agent with -dev and -data-dir outlives it, and its data needs the same key.
	if structs.IsKind(err, structs.KindConflict) {
		return nil
	}

	return err
}
