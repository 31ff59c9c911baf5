package kit

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWatchOpens_ReportsAnOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	err := os.WriteFile(path, nil, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	opened := WatchOpens(t, path)
	if opened() {
		t.Error("an open is reported before it")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if !opened() {
		t.Error("the open is not reported")
	}
	if opened() {
		t.Error("the open is reported twice")
	}
}

func TestMakeDevice_MakesADevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "null")
	MakeDevice(t, path, unix.S_IFCHR|0o600, unix.Mkdev(1, 3))
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("got %v, %v", info, err)
	}
}
