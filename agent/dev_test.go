package agent

import (
	"path/filepath"
	"testing"

	"berth/internal/keyring"
)

func TestDevKeyring_IsMadeOnceAndForDevAlone(t *testing.T) {
	cfg := DefaultConfig()
	cfg.dev()
	cfg.DataDir = filepath.Join(t.TempDir(), "data")
	if err := cfg.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := makeDevKeyring(&cfg); err != nil {
		t.Fatal(err)
	}
	first, err := keyring.ReadFile(devKeyring(cfg.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	if err := makeDevKeyring(&cfg); err != nil {
		t.Fatal(err)
	}
	again, err := keyring.ReadFile(devKeyring(cfg.DataDir))
	if err != nil || again.ID() != first.ID() {
		t.Errorf("the key was made again, error %v", err)
	}

	cluster := DefaultConfig()
	cluster.DataDir = cfg.DataDir
	cluster.Server.Enabled = true
	cluster.Server.Keyring.File = devKeyring(cfg.DataDir)
	if err := cluster.Finish(); err == nil {
		t.Error("a server takes a key in its data directory")
	}
}
