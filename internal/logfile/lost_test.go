package logfile

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

// TestRotator_ContinuesAfterALoss: the task moves or removes its file or the directory, or puts something
// else in its place. No later output is lost, and a follower misses nothing.
func TestRotator_ContinuesAfterALoss(t *testing.T) {
	host := t.TempDir()
	for name, c := range map[string]struct {
		loss func(t *testing.T, dir string)
		kept bool // the earlier output
	}{
		"a removed directory": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.RemoveAll(dir))
		}},
		"a moved directory": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.Rename(dir, dir+".old"))
		}},
		"another directory": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.Rename(dir, dir+".old"))
			kit.Must(t, os.Mkdir(dir, 0o700))
		}},
		"a file": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.RemoveAll(dir))
			kit.Must(t, os.WriteFile(dir, nil, 0o600))
		}},
		"a link to the host": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.Rename(dir, dir+".old"))
			kit.Must(t, os.Symlink(host, dir))
		}},
		"a link to itself": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.Rename(dir, dir+".old"))
			kit.Must(t, os.Symlink(dir+".old", dir))
		}},
		"a pipe": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.RemoveAll(dir))
			kit.Must(t, unix.Mkfifo(dir, 0o600))
		}},
		"a removed file": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.Remove(filepath.Join(dir, Name("web.x", Stdout, 0))))
		}},
		"a moved file": {loss: func(t *testing.T, dir string) {
			kit.Must(t, os.Rename(filepath.Join(dir, Name("web.x", Stdout, 0)), filepath.Join(dir, "mine")))
		}},
		"another file": {kept: true, loss: func(t *testing.T, dir string) {
			path := filepath.Join(dir, Name("web.x", Stdout, 0))
			kit.Must(t, os.Rename(path, filepath.Join(dir, "mine")))
			kit.Must(t, os.WriteFile(path, []byte("before"), 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "logs")
			kit.Must(t, os.Mkdir(dir, 0o755))
			r := newRotator(t, dir, 3, 100)
			writeString(t, r, "before")
			ended := make(chan struct{})
			o := Options{Dir: dir, Task: "web.x", Kind: Stdout, Follow: true, Ended: ended}
			follower, err := Open(t.Context(), o)
			kit.Must(t, err)
			defer follower.Close()
			_, err = io.ReadFull(follower, make([]byte, len("be")))
			kit.Must(t, err)
			c.loss(t, dir)
			writeString(t, r, "after")
			want := "after"
			if c.kept {
				want = "beforeafter"
			}
			if got := readOutput(t, Options{Dir: dir, Task: "web.x", Kind: Stdout}); got != want {
				t.Errorf("read %q, want %q", got, want)
			}
			close(ended)
			if b, err := io.ReadAll(follower); string(b) != "foreafter" || err != nil {
				t.Errorf("a follower got %q, %v", b, err)
			}
			if left, err := os.ReadDir(host); len(left) > 0 || err != nil {
				t.Errorf("the host's directory has %v, %v", left, err)
			}
		})
	}
}

// TestRotator_StartsWithoutADirectory: a task that has removed or replaced it is started again.
func TestRotator_StartsWithoutADirectory(t *testing.T) {
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	for name, replace := range map[string]func(dir string) error{
		"nothing": func(string) error { return nil },
		"a link":  func(dir string) error { return os.Symlink("/", dir) },
		"a file":  func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		dir := filepath.Join(t.TempDir(), "logs")
		kit.Must(t, replace(dir))
		writeString(t, newRotator(t, dir, 3, 100), "again")
		if got := readOutput(t, Options{Dir: dir, Task: "web.x", Kind: Stdout}); got != "again" {
			t.Errorf("%s: read %q", name, got)
		}
		if info, err := os.Lstat(dir); err != nil || info.Mode() != 0o755|os.ModeDir {
			t.Errorf("%s: the directory is %v, %v", name, info, err)
		}
	}
}

// TestRotator_PassesLargeFiles that the task has put in the place of the next ones.
func TestRotator_PassesLargeFiles(t *testing.T) {
	dir := t.TempDir()
	r := newRotator(t, dir, 9, 4)
	writeString(t, r, "abcd")
	for n := range 2 {
		kit.Must(t, os.WriteFile(filepath.Join(dir, Name("web.x", Stdout, n+1)), []byte("large"), 0o600))
	}
	writeString(t, r, "e")
	if got := readOutput(t, Options{Dir: dir, Task: "web.x", Kind: Stdout}); got != "abcdlargelargee" {
		t.Errorf("read %q", got)
	}
}

// TestOpen_NamesNoPathOfTheHost in its errors, which the users of the task read.
func TestOpen_NamesNoPathOfTheHost(t *testing.T) {
	base := t.TempDir()
	host := t.TempDir()
	file := Name("t", Stdout, 0)
	kit.Must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	kit.Must(t, os.Symlink(host, filepath.Join(base, "link")))
	kit.Must(t, os.MkdirAll(filepath.Join(base, "dirs", file), 0o700))
	kit.Must(t, os.Mkdir(filepath.Join(base, "links"), 0o700))
	kit.Must(t, os.Symlink(host, filepath.Join(base, "links", file)))
	kit.Must(t, os.Mkdir(filepath.Join(base, "sockets"), 0o700))
	kit.Must(t, unix.Mknod(filepath.Join(base, "sockets", file), unix.S_IFSOCK|0o600, 0))
	for name, kind := range map[string]structs.Kind{
		"file":    structs.KindNotFound,
		"link":    structs.KindNotFound,
		"dirs":    structs.KindPrecondition,
		"links":   structs.KindPrecondition,
		"sockets": structs.KindPrecondition,
	} {
		for _, follow := range []bool{false, true} {
			o := Options{Dir: filepath.Join(base, name), Task: "t", Kind: Stdout, Follow: follow}
			_, err := Open(context.Background(), o)
			if !structs.IsKind(err, kind) || strings.Contains(err.Error(), base) {
				t.Errorf("%s: got %v, want %s", name, err, kind)
			}
		}
	}
	writer := output{dir: filepath.Join(base, "dirs"), task: "t", kind: Stdout}
	_, err := writer.openPart(0, os.O_WRONLY|os.O_CREATE)
	if err == nil || strings.Contains(err.Error(), base) {
		t.Errorf("the error of a writer, of which it leaves a note in the output, is %v", err)
	}
}
