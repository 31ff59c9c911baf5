package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDescribe_NamesTheLargestPartsFirst(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{
		"client/alloc/a/b/large": 300 << 10,
		"client/alloc/second":    300 << 10,
		"server/raft/log":        400 << 10,
		"small":                  1,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := DescribeDisk(t.Context(), dir)
	first := strings.Index(text, "client/alloc 6")
	second := strings.Index(text, "server/raft 4")
	if !strings.HasPrefix(text, "the file system /") || first < 0 || second < first ||
		!strings.Contains(text, "below "+dir+": ") || strings.HasSuffix(text, " or more") {
		t.Errorf("got %q", text)
	}
}

// A folder with millions of files is not read to its end, and says so.
func TestDescribe_HasAnEnd(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if parts, err := partsBelow(ended, dir); err == nil {
		t.Errorf("got %v and no error", parts)
	}
	text := DescribeDisk(t.Context(), filepath.Join(dir, "missing"))
	if !strings.Contains(text, "does not answer") {
		t.Errorf("got %q", text)
	}
}
