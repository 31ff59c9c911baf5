package drivertest

import (
	"os"
	"path/filepath"
	"testing"

	"berth/client/drivers/driver"
)

// Tree is the directory of an allocation: with the directories of the task web and of another task.
type Tree struct {
	t   testing.TB
	dir string
}

// NewTree makes the directories. They end with the test.
func NewTree(t testing.TB) *Tree {
	t.Helper()
	tree := &Tree{t, t.TempDir()}
	for _, dir := range []string{"web/local", "web/secrets", "web/tmp", "alloc/data", "other/secrets"} {
		err := os.MkdirAll(tree.Path(dir), 0o755)
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// Path returns the path of a file below the directory of the allocation, and that directory for "".
func (tree *Tree) Path(file string) string { return filepath.Join(tree.dir, file) }

// Dirs returns the directories of the task web.
func (tree *Tree) Dirs() driver.Dirs {
	return driver.Dirs{
		Task:        tree.Path("web"),
		AllocShared: tree.Path("alloc"),
	}
}

// MustWrite writes a text to a file.
func (tree *Tree) MustWrite(file, text string) {
	tree.t.Helper()
	err := os.WriteFile(tree.Path(file), []byte(text), 0o644)
	if err != nil {
		tree.t.Fatal(err)
	}
}

// CheckFile compares the content of a file.
func (tree *Tree) CheckFile(file, want string) {
	tree.t.Helper()
	got, err := os.ReadFile(tree.Path(file))
	if err != nil || string(got) != want {
		tree.t.Errorf("%s: got %q, %v; want %q", file, got, err, want)
	}
}

// MustLink makes a symbolic link in place of a file, if there is one.
func (tree *Tree) MustLink(target, file string) {
	tree.t.Helper()
	_ = os.Remove(tree.Path(file))
	err := os.Symlink(target, tree.Path(file))
	if err != nil {
		tree.t.Fatal(err)
	}
}
