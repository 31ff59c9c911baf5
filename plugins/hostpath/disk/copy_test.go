package disk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
	"pgregory.net/rapid"
)

func TestTree_CopiesEverything(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it changes owners and makes devices")
	}
	from, to := filepath.Join(t.TempDir(), "from"), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(from+"/dir/empty", 0o750))
	must(os.WriteFile(from+"/dir/file", []byte("text"), 0o640))
	must(os.Link(from+"/dir/file", from+"/second"))
	must(os.Symlink("/etc/passwd", from+"/link"))
	must(os.Symlink("..", from+"/dir/up"))
	must(unix.Mkfifo(from+"/pipe", 0o600))
	kit.MakeDevice(t, from+"/null", unix.S_IFCHR|0o666, unix.Mkdev(1, 3))
	must(os.Chown(from+"/dir", 12, 34))
	must(os.Chmod(from+"/dir", os.ModeSetgid|0o751))
	must(unix.Setxattr(from+"/dir/file", "trusted.berth", []byte("x"), 0))
	old := time.Unix(1000, 0)
	must(os.Chtimes(from+"/dir", old, old))

	must(CopyTree(context.Background(), from, to))

	for _, name := range []string{
		".", "dir", "dir/empty", "dir/file", "second", "link", "dir/up", "pipe", "null",
	} {
		var a, b unix.Stat_t
		must(unix.Lstat(filepath.Join(from, name), &a))
		must(unix.Lstat(filepath.Join(to, name), &b))
		if a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Rdev != b.Rdev || a.Nlink != b.Nlink {
			t.Errorf("%s: got %+v, want %+v", name, b, a)
		}
		if a.Mode&unix.S_IFMT == unix.S_IFDIR && a.Mtim != b.Mtim {
			t.Errorf("%s: got the time %v, want %v", name, b.Mtim, a.Mtim)
		}
	}
	var a, b unix.Stat_t
	must(unix.Lstat(to+"/dir/file", &a))
	must(unix.Lstat(to+"/second", &b))
	if a.Ino != b.Ino {
		t.Error("two names of one file became two files")
	}
	if got, err := os.Readlink(to + "/link"); err != nil || got != "/etc/passwd" {
		t.Errorf("the link has the target %q, %v, want /etc/passwd", got, err)
	}
	value := make([]byte, 8)
	n, err := unix.Getxattr(to+"/dir/file", "trusted.berth", value)
	must(err)
	if got := string(value[:n]); got != "x" {
		t.Errorf("the extended attribute is %q, want x", got)
	}
}

// A file has two names, and its owner removes the name that would have been copied first.
func TestTree_AFileWhoseFirstNameIsGone(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	err := errors.Join(
		os.WriteFile(from+"/second", []byte("text"), 0o600),
		os.Link(from+"/second", from+"/third"))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.OpenRoot(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	var st unix.Stat_t
	if err := unix.Stat(from+"/second", &st); err != nil {
		t.Fatal(err)
	}
	key := inode{uint64(st.Dev), st.Ino}
	c := &treeCopy{t.Context(), src, dst, map[inode]string{key: "first"}}
	for _, name := range []string{"second", "third"} {
		if err := c.copyEntry(name); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(b) != "text" {
			t.Errorf("%s: got %q, %v, want text", name, b, err)
		}
	}
}

func TestTree_EndsWithItsContext(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(from+"/f", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := CopyTree(ctx, from, to); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a canceled context", err)
	}
}

// A copy of an image has the same bytes and about the same number of blocks, for any distribution of its
// data.
func TestImage_KeepsHoles(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		const size = 1 << 20
		f, err := os.Create(dir + "/from")
		if err != nil {
			r.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(size); err != nil {
			r.Fatal(err)
		}
		for _, at := range rapid.SliceOfN(rapid.Int64Range(0, size-100), 0, 5).Draw(r, "writes") {
			if _, err := f.WriteAt(bytes.Repeat([]byte{7}, 100), at); err != nil {
				r.Fatal(err)
			}
		}
		if err := CopyImage(context.Background(), dir+"/from", dir+"/to"); err != nil {
			r.Fatal(err)
		}
		a, err1 := os.ReadFile(dir + "/from")
		b, err2 := os.ReadFile(dir + "/to")
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
			r.Fatalf("the copy differs (%v)", err)
		}
		var sa, sb unix.Stat_t
		err = errors.Join(unix.Stat(dir+"/from", &sa), unix.Stat(dir+"/to", &sb))
		if err != nil || sb.Blocks > sa.Blocks+16 {
			r.Fatalf("the copy has %d blocks, its source %d (%v)", sb.Blocks, sa.Blocks, err)
		}
	})
}
