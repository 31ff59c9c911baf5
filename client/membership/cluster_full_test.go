package membership

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/files"
	"berth/test/kit"
)

// The file is the only copy, so a full disk must not cost it.
func TestWrite_OnAFullDiskKeepsTheFile(t *testing.T) {
	dir := kit.MountDisk(t, "1m")
	free := kit.FillDisk(t, dir, 0)
	want := func(when, id string) {
		t.Helper()
		if got, err := ReadCluster(dir); err != nil || got != id {
			t.Errorf("%s: the file has %q (%v), want %q", when, got, err, id)
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name() != ClusterFile && e.Name() != "filler" {
				t.Errorf("%s: %s is left", when, e.Name())
			}
		}
	}
	fails := func(when, id string) {
		t.Helper()
		err := WriteCluster(dir, id)
		if !files.IsNoSpace(err) || !strings.Contains(err.Error(), filepath.Join(dir, ClusterFile)) {
			t.Errorf("%s: %v, want no space for the file", when, err)
		}
	}

	fails("the first", "c1")
	want("after the first", "")
	free()
	if err := WriteCluster(dir, "c1"); err != nil {
		t.Fatal(err)
	}
	free = kit.FillDisk(t, dir, 0)
	fails("another", "c2")
	want("after another", "c1")
	if err := WriteCluster(dir, "c1"); err != nil {
		t.Errorf("the ID that the disk has: %v", err)
	}
	free()
	if err := WriteCluster(dir, "c2"); err != nil {
		t.Error(err)
	}
	want("with space", "c2")
}
