package files

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFile_ReplacesTheContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"a longer content", "short", ""} {
		if err := WriteDurable(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("the file holds %q (%v), want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode is %v (%v), want 0600", info.Mode(), err)
	}
}

func TestWriteFile_AFailureKeepsTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteDurable(path, []byte("x")); err == nil {
		t.Error("WriteFile replaces a directory that is not empty")
	}
	if err := WriteDurable(filepath.Join(dir, "missing", "f"), nil); !os.IsNotExist(err) {
		t.Errorf("without its directory: got %v, want that it does not exist", err)
	}
}
