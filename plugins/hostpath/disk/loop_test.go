package disk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAttach_WithoutAFreeLoopDevice(t *testing.T) {
	image, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	_, err = configureLoop(filepath.Join(t.TempDir(), "loop9"), image, false, false)
	if !errors.Is(err, unix.EBUSY) {
		t.Errorf("a device that /dev lacks: got %v, want EBUSY", err)
	}
}
