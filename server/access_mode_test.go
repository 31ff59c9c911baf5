package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/state"
	"berth/state/acls"
	"berth/structs/access"
)

// TestAccessMode_HoldsWithoutAQuorum: after a start the state may be older than the mode that was kept beside
// it. The stricter one holds until the state has reached the entry with the mode.
func TestAccessMode_HoldsWithoutAQuorum(t *testing.T) {
	dir := t.TempDir()
	store := state.New()
	m, err := openAccessMode(dir, store)
	if err != nil || m.mode() != access.ModeOff {
		t.Fatalf("a new server: %v, %v", m, err)
	}
	err = os.WriteFile(filepath.Join(dir, modeFile), []byte(`{"Mode":"enforce","Index":7}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	m, err = openAccessMode(dir, store)
	if err != nil {
		t.Fatal(err)
	}
	if m.mode() != access.ModeEnforce {
		t.Errorf("an old state has the mode %s", m.mode())
	}
	set := func(index uint64, mode string) {
		t.Helper()
		err := store.Write(index, func(tx *state.WriteTx) error {
			return acls.ChangeMode(tx, &access.ModeChange{Mode: mode, Loosen: true})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	set(6, access.ModeLog)
	if m.mode() != access.ModeEnforce {
		t.Errorf("a state before the entry has the mode %s", m.mode())
	}
	set(9, access.ModeOff)
	if m.mode() != access.ModeOff {
		t.Errorf("after a later entry the mode is %s", m.mode())
	}
}

func TestAccessMode_NamesADamagedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, modeFile)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openAccessMode(dir, state.New())
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}
