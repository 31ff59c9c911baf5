package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

func openRoot(t *testing.T) (root *os.Root, outside string) {
	t.Helper()
	base := t.TempDir()
	outside = filepath.Join(base, "outside")
	kit.Must(t, os.WriteFile(outside, []byte("of the host"), 0o600))
	kit.Must(t, os.Mkdir(filepath.Join(base, "dir"), 0o700))
	root, err := os.OpenRoot(filepath.Join(base, "dir"))
	kit.Must(t, err)
	t.Cleanup(func() { kit.Must(t, root.Close()) })
	return root, outside
}

func TestReplace_FollowsNoLinkAndLeavesNothing(t *testing.T) {
	root, outside := openRoot(t)
	kit.Must(t, root.Symlink(outside, "f"))
	kit.Must(t, root.Symlink(outside, TemporaryName("f")))
	kit.Must(t, ReplaceIn(root, "f", File{Text: "new", Mode: 0o440, UID: -1, GID: -1}))
	got, err := ReadIn(root, "f", 3)
	if err != nil || got != "new" {
		t.Errorf("got %q, %v", got, err)
	}
	info, err := root.Lstat("f")
	if err != nil || info.Mode() != 0o440 {
		t.Errorf("the file is %v, %v", info, err)
	}
	kept, err := os.ReadFile(outside)
	if err != nil || string(kept) != "of the host" {
		t.Errorf("the file outside has %q, %v", kept, err)
	}
	if _, err := root.Lstat(TemporaryName("f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file is left: %v", err)
	}
}

// The kernel takes names of 255 bytes.
func TestReplace_TakesTheLongestNames(t *testing.T) {
	root, _ := openRoot(t)
	for _, end := range []string{"a", "b"} {
		name := strings.Repeat("n", 254) + end
		kit.Must(t, ReplaceIn(root, name, File{Text: end, Mode: 0o400, UID: -1, GID: -1}))
		got, err := ReadIn(root, name, 1)
		if err != nil || got != end {
			t.Errorf("%s: got %q, %v", end, got, err)
		}
	}
	if TemporaryName("a") == TemporaryName("b") {
		t.Error("two files would be written to one")
	}
}

func TestReplace_LeavesTheFileAfterAnError(t *testing.T) {
	root, _ := openRoot(t)
	kit.Must(t, root.MkdirAll("f/x", 0o700))
	if err := ReplaceIn(root, "f", File{Text: "new", UID: -1, GID: -1}); err == nil {
		t.Error("a file took the place of a directory")
	}
	if _, err := root.Lstat(TemporaryName("f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file is left: %v", err)
	}
}

func TestRead_TakesPlainFilesAlone(t *testing.T) {
	root, outside := openRoot(t)
	kit.Must(t, root.Symlink(outside, "link"))
	kit.Must(t, root.Mkdir("directory", 0o700))
	kit.Must(t, unix.Mkfifo(filepath.Join(root.Name(), "pipe"), 0o600))
	kit.Must(t, ReplaceIn(root, "long", File{Text: "four", Mode: 0o400, UID: -1, GID: -1}))
	for _, name := range []string{"link", "directory", "pipe", "long"} {
		got, err := ReadIn(root, name, 3)
		if !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("%s: got %q, %v, want a precondition", name, got, err)
		}
	}
	if _, err := ReadIn(root, "none", 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}
