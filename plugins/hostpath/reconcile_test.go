package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/plugins/hostpath/disk"
)

// A driver that is killed leaves the files with which it tests the file system.
func TestReconcile_RemovesTheTestFilesOfAKilledDriver(t *testing.T) {
	s, err := disk.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	d := &driver{store: s, logger: hclog.NewNullLogger()}
	left := filepath.Join(d.store.Dir, disk.ReflinkPrefix+"123")
	kept := filepath.Join(d.store.Dir, "of-an-operator")
	for _, path := range []string{left, kept} {
		err := os.WriteFile(path, []byte("x"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	err = d.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the test file: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("another file: %v", err)
	}
}
