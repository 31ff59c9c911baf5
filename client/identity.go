package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"berth/structs"
)

// identity is what a node is known by: its ID to everybody, its secret to the servers alone. Both are
// made once and outlive the agent.
type identity struct{ nodeID, secretID string }

// loadIdentity reads the identity in dir or makes it. A configured node ID wins over the one on disk.
func loadIdentity(dir, configured string) (identity, error) {
	var id identity
	var err error
	if id.nodeID, err = loadOrMake(filepath.Join(dir, "node-id"), configured); err != nil {
		return id, err
	}
	id.secretID, err = loadOrMake(filepath.Join(dir, "secret-id"), "")
	return id, err
}

func loadOrMake(path, want string) (string, error) {
	b, err := os.ReadFile(path)
	have := strings.TrimSpace(string(b))
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("reading the node's identity: %w", err)
	case have != "" && (want == "" || want == have):
		return have, nil
	case want == "":
		want = structs.NewID()
	}
	return want, writeSecret(path, want)
}

// writeSecret writes a file that only the agent's user reads, whole or not at all.
func writeSecret(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("writing the node's identity: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing the node's identity: %w", err)
	}
	return nil
}
