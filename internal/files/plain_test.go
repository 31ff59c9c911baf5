package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

func openDir(t *testing.T, path string) *os.File {
	t.Helper()
	dir, err := os.Open(path)
	kit.Must(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// An open starts the device of a watchdog, and gives a terminal to the process.
func TestOpenPlain_OpensNoDevice(t *testing.T) {
	path := t.TempDir()
	dir := openDir(t, path)
	device := filepath.Join(path, "device")
	kit.MakeDevice(t, device, unix.S_IFCHR|0o666, unix.Mkdev(1, 3))
	opened := kit.WatchOpens(t, device)
	root, err := os.OpenRoot(path)
	kit.Must(t, err)
	defer func() { _ = root.Close() }()
	for name, open := range map[string]func() error{
		"OpenPlain": func() error {
			_, err := OpenPlain(dir, "device", os.O_RDONLY)
			return err
		},
		"OpenPlain, to make it": func() error {
			_, err := OpenPlain(dir, "device", os.O_WRONLY|os.O_CREATE|os.O_APPEND)
			return err
		},
		"FindPlain": func() error {
			_, err := FindPlain(dir, "device")
			return err
		},
		"Read": func() error {
			_, err := ReadIn(root, "device", 10)
			return err
		},
	} {
		if err := open(); !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("%s: got %v, want a precondition", name, err)
		}
		if opened() {
			t.Errorf("%s has opened the device", name)
		}
	}
}

func TestOpenPlain_MakesAndAppends(t *testing.T) {
	path := t.TempDir()
	dir := openDir(t, path)
	for _, text := range []string{"a", "b"} {
		f, err := OpenPlain(dir, "f", os.O_WRONLY|os.O_CREATE|os.O_APPEND)
		kit.Must(t, err)
		_, err = f.WriteString(text)
		kit.Must(t, errors.Join(err, f.Close()))
	}
	got, err := os.ReadFile(filepath.Join(path, "f"))
	if err != nil || string(got) != "ab" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := OpenPlain(dir, "none", os.O_RDONLY); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

func TestFindPlain_FollowsLinksInsideAlone(t *testing.T) {
	path := t.TempDir()
	dir := openDir(t, path)
	kit.Must(t, os.WriteFile(filepath.Join(path, "f"), nil, 0o600))
	for target, want := range map[string]error{
		"f":           nil,
		"./f":         nil,
		"none":        unix.ENOENT,
		"../f":        unix.EXDEV,
		"/etc/passwd": unix.EXDEV,
		path + "/f":   unix.EXDEV,
	} {
		link := filepath.Join(path, "link")
		kit.Must(t, os.RemoveAll(link))
		kit.Must(t, os.Symlink(target, link))
		f, err := FindPlain(dir, "link")
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", target, err, want)
		}
		_ = f.Close() // of nil it only returns an error
	}
}
