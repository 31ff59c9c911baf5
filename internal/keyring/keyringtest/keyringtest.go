// Package keyringtest makes the keys of tests. It is apart from package kit of the tests, which imports no
// package of berth.
package keyringtest

import (
	"bytes"
	"path/filepath"
	"testing"

	"berth/internal/keyring"
	"berth/structs/cluster"
)

// NewFile writes a new key-encryption key to a directory of the test, and returns its path.
func NewFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyring")
	err := keyring.NewFileKey().WriteNew(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Use gives a ring a root key, the same in each call, and has it encrypt with that.
func Use(t testing.TB, ring *keyring.Ring, id string) {
	t.Helper()
	err := ring.Add(id, bytes.Repeat([]byte{1}, keyring.KeySize))
	if err == nil {
		err = ring.Use(id)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Row returns the request that records a root key. Nothing unwraps it.
func Row(id string) *cluster.RootKeyAddRequest {
	return &cluster.RootKeyAddRequest{
		KeyID:   id,
		Wrapped: []byte("wrapped"),
		KEK:     "kek",
		Digest:  []byte(id),
	}
}
