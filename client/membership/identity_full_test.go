package membership

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/store"
	"berth/internal/files"
	"berth/test/kit"
)

// filesIn returns the files of an identity with their content.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), nodeFile) && !strings.HasPrefix(e.Name(), secretFile) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// A node on a full disk never gets a part of an identity, and never loses one. The records are on a disk of
// their own, so that the files alone have no space.
func TestLoad_OnAFullDiskWritesNothingOrAll(t *testing.T) {
	db, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dir := kit.MountDisk(t, "1m")
	free := kit.FillDisk(t, dir, 0)
	for range 2 {
		_, err := LoadIdentity(db, dir, WantedIdentity{})
		if !files.IsNoSpace(err) || !strings.Contains(err.Error(), filepath.Join(dir, nodeFile)) {
			t.Errorf("got %v, want no space for %s", err, nodeFile)
		}
		if files := filesIn(t, dir); len(files) != 0 {
			t.Errorf("the full disk has %q", files)
		}
	}

	free()
	first, err := LoadIdentity(db, dir, WantedIdentity{})
	if err != nil {
		t.Fatal(err)
	}
	before := filesIn(t, dir)
	free = kit.FillDisk(t, dir, 0)
	again, err := LoadIdentity(db, dir, WantedIdentity{})
	if err != nil || again != first {
		t.Errorf("a later start on the full disk: %+v (%v), want %+v", again, err, first)
	}
	if _, err := LoadIdentity(db, dir, WantedIdentity{Configured: "other"}); !files.IsNoSpace(err) {
		t.Errorf("another ID: %v, want no space", err)
	}
	for name, content := range filesIn(t, dir) {
		if content != before[name] {
			t.Errorf("%s is %q, and was %q", name, content, before[name])
		}
	}
	free()
	again, err = LoadIdentity(db, dir, WantedIdentity{})
	if err != nil || again != first {
		t.Errorf("with space: %+v (%v), want %+v", again, err, first)
	}
}
