package membership

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRead_ReturnsWhatWasWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, step := range []struct{ write, want string }{
		{"", ""},
		{"one", "one"},
		{"", "one"}, // from servers that do not tell it
		{"two", "two"},
	} {
		err := WriteCluster(dir, step.write)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadCluster(dir)
		if err != nil || got != step.want {
			t.Errorf("after %q: got %q, %v, want %q", step.write, got, err, step.want)
		}
	}
}

// A node with an empty file would join any cluster, whose servers end its tasks.
func TestRead_RejectsAnEmptyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, ClusterFile), []byte("\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := ReadCluster(dir); err == nil {
		t.Errorf("got %q, want an error", id)
	}
}
