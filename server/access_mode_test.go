package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/files"
	"berth/state"
	"berth/structs/access"
	"berth/test/kit"
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
			return state.ACLModeChange(tx, &access.ModeChange{Mode: mode, Loosen: true})
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

// The cluster begins to enforce access control while the disk of a server is full. After a start without a
// quorum the server must not answer everybody.
func TestAccessMode_IsKeptOnAFullDisk(t *testing.T) {
	dir := kit.MountDisk(t, "64k")
	m, err := openAccessMode(dir, state.New())
	if err != nil {
		t.Fatal(err)
	}
	free := kit.FillDisk(t, dir, 0)
	for _, want := range []keptMode{
		{Mode: access.ModeEnforce, Index: 1 << 60},
		{Mode: access.ModeLog, Index: 1 << 61},
		{Mode: access.ModeOff, Index: 1 << 62},
	} {
		if err := m.write(&want); err != nil {
			t.Fatal(err)
		}
		again, err := openAccessMode(dir, state.New())
		if err != nil {
			t.Fatal(err)
		}
		if got := *again.last.Load(); got != want {
			t.Errorf("the next start reads %+v, want %+v", got, want)
		}
	}
	free()

	// The first start may be on a full disk, too.
	dir = kit.MountDisk(t, "64k")
	free = kit.FillDisk(t, dir, 0)
	m, err = openAccessMode(dir, state.New())
	if err != nil || m.mode() != access.ModeOff {
		t.Fatalf("a first start on a full disk: %v", err)
	}
	now := &keptMode{Mode: access.ModeEnforce, Index: 7}
	if err := m.write(now); !files.IsNoSpace(err) {
		t.Errorf("got %v, want no space", err)
	}
	free()
	if err := m.write(now); err != nil {
		t.Error(err)
	}
}
