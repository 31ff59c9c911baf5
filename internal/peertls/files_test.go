package peertls

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadFile_TakesRegularFilesAlone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	err := syscall.Mkfifo(pipe, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		_, err := readFile(pemFile{"ca_file", path})
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
