package logfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"berth/test/kit"
)

func TestMain(m *testing.M) {
	poll = time.Millisecond
	goleak.VerifyTestMain(m)
}

func newRotator(t *testing.T, dir string, files int, size int64) *Rotator {
	t.Helper()
	r, err := NewRotator(Config{Dir: dir, Task: "web.x", Kind: Stdout, MaxFiles: files, MaxFileSize: size})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func writeString(t *testing.T, r *Rotator, s string) {
	t.Helper()
	if n, err := r.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("Write(%q) returned %d, %v; want %d", s, n, err, len(s))
	}
}

func listFiles(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Name()+"="+string(b))
	}
	return strings.Join(list, " ")
}

func readOutput(t *testing.T, o Options) string {
	t.Helper()
	r, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRotator_KeepsTheNewestFiles(t *testing.T) {
	dir := t.TempDir()
	r := newRotator(t, dir, 2, 4)
	writeString(t, r, "ab")
	writeString(t, r, "cdefghij")
	if got, want := listFiles(t, dir), "web.x.stdout.1=efgh web.x.stdout.2=ij"; got != want {
		t.Fatalf("files are %s, want %s", got, want)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = newRotator(t, dir, 2, 4) // a restarted task appends to the newest file
	writeString(t, r, "klm")
	if got, want := listFiles(t, dir), "web.x.stdout.2=ijkl web.x.stdout.3=m"; got != want {
		t.Fatalf("files are %s, want %s", got, want)
	}
}

func TestRotator_IgnoresOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{
		"web.x.stderr.0",
		"web.stdout.9",
		"web.x.stdout.00",
		"web.x.stdout.-1",
		"web.x.stdout.1x",
		"web.x.stdout.",
	} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeString(t, newRotator(t, dir, 1, 1), "abc")
	if entries, _ := os.ReadDir(dir); len(entries) != 7 {
		t.Fatalf("the directory has %v, want 7 files", entries)
	}
	if got := readOutput(t, Options{Dir: dir, Task: "web.x", Kind: Stdout}); got != "c" {
		t.Fatalf("read %q, want %q", got, "c")
	}
}

// TestRotator_NotesTheBytesThatItDropped: the directory above that of the logs is moved and comes back. A
// note has the number of bytes lost in between.
func TestRotator_NotesTheBytesThatItDropped(t *testing.T) {
	above := filepath.Join(t.TempDir(), "alloc")
	dir := filepath.Join(above, "logs")
	kit.Must(t, os.MkdirAll(dir, 0o755))
	r := newRotator(t, dir, 3, 200)
	writeString(t, r, strings.Repeat("a", 200))
	kit.Must(t, os.Rename(above, above+".moved"))
	writeString(t, r, "lost1")
	writeString(t, r, "lost2")
	if r.dropped != 10 {
		t.Fatalf("%d bytes were dropped, want 10", r.dropped)
	}
	kit.Must(t, os.Rename(above+".moved", above))
	writeString(t, r, "back")
	got := readOutput(t, Options{Dir: dir, Task: "web.x", Kind: Stdout})
	const note = "\n[berth: 10 bytes of output were dropped here: open alloc: no such file or directory]\nback"
	if !strings.HasSuffix(got, "a"+note) {
		t.Fatalf("read %q, want a note on 10 bytes and the later output", got)
	}
	if r.dropped != 0 {
		t.Fatalf("%d dropped bytes are not noted, want 0", r.dropped)
	}
}

func TestRotator_DropsOutputWhileTheDiskIsFull(t *testing.T) {
	r := newRotator(t, t.TempDir(), 2, 100)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	good := r.file
	r.file = full
	writeString(t, r, "lost")
	writeString(t, r, "lost")
	r.file = good
	full.Close()
	writeString(t, r, "x")
	got := readOutput(t, Options{Dir: r.cfg.Dir, Task: "web.x", Kind: Stdout})
	const want = "\n[berth: 8 bytes of output were dropped here: write /dev/full: no space left on device]\nx"
	if got != want {
		t.Fatalf("read %q, want %q", got, want)
	}
}

func TestReader_BeginsAtItsOffset(t *testing.T) {
	dir := t.TempDir()
	writeString(t, newRotator(t, dir, 10, 3), "abcdefgh")
	for _, c := range []struct {
		origin string
		offset int64
		want   string
	}{
		{"", 0, "abcdefgh"},
		{FromStart, 2, "cdefgh"},
		{FromStart, 3, "defgh"},
		{FromStart, 7, "h"},
		{FromStart, 8, ""},
		{FromStart, 1000, ""},
		{FromEnd, 0, ""},
		{FromEnd, 1, "h"},
		{FromEnd, 3, "fgh"},
		{FromEnd, 8, "abcdefgh"},
		{FromEnd, 1000, "abcdefgh"},
	} {
		got := readOutput(t, Options{Dir: dir, Task: "web.x", Kind: Stdout, Origin: c.origin, Offset: c.offset})
		if got != c.want {
			t.Errorf("from %q at %d: got %q, want %q", c.origin, c.offset, got, c.want)
		}
	}
}

func TestReader_BeginsAtTheLastLines(t *testing.T) {
	dir := t.TempDir()
	writeString(t, newRotator(t, dir, 10, 4), "one\ntwo\nthree\nfour\n")
	for n, want := range map[int]string{
		1:  "four\n",
		2:  "three\nfour\n",
		3:  "two\nthree\nfour\n",
		4:  "one\ntwo\nthree\nfour\n",
		99: "one\ntwo\nthree\nfour\n",
	} {
		o := Options{Dir: dir, Task: "web.x", Kind: Stdout, Origin: FromEnd, Lines: n}
		if got := readOutput(t, o); got != want {
			t.Errorf("%d lines: got %q, want %q", n, got, want)
		}
	}
	// The next part is there, and has nothing yet.
	kit.Must(t, os.WriteFile(filepath.Join(dir, Name("web.x", Stdout, 9)), nil, 0o600))
	o := Options{Dir: dir, Task: "web.x", Kind: Stdout, Origin: FromEnd, Lines: 1}
	if got := readOutput(t, o); got != "four\n" {
		t.Errorf("before an empty part: got %q", got)
	}
}

// TestReader_EndsWithItsTask: a follower reads all that the task has written.
func TestReader_EndsWithItsTask(t *testing.T) {
	dir := t.TempDir()
	w := newRotator(t, dir, 10, 4)
	ended := make(chan struct{})
	r, err := Open(t.Context(), Options{Dir: dir, Task: "web.x", Kind: Stdout, Follow: true, Ended: ended})
	kit.Must(t, err)
	defer r.Close()
	writeString(t, w, "one two three")
	close(ended)
	b, err := io.ReadAll(r)
	if string(b) != "one two three" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestOpen_OutputWithoutFilesIsEmpty(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Join(dir, "gone")} {
		if got := readOutput(t, Options{Dir: d, Task: "t", Kind: Stderr}); got != "" {
			t.Errorf("got %q", got)
		}
	}
}

func TestReader_FollowsRotations(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := Open(ctx, Options{Dir: dir, Task: "web.x", Kind: Stdout, Follow: true})
	if err != nil {
		t.Fatal(err) // a task that has written nothing yet can be followed
	}
	defer r.Close()
	w := newRotator(t, dir, 50, 7)
	var want bytes.Buffer
	for i := range 40 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		writeString(t, w, line)
		got := make([]byte, len(line))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != line {
			t.Fatalf("read %q, %v, want %q", got, err, line)
		}
	}
	cancel()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Fatalf("after the end of the context: got %q, %v; want nothing", rest, err)
	}
}

// TestReader_SkipsRemovedFiles: a reader that is overtaken continues with the oldest file. It never reads a
// byte twice.
func TestReader_SkipsRemovedFiles(t *testing.T) {
	dir := t.TempDir()
	w := newRotator(t, dir, 2, 2)
	writeString(t, w, "aabb")
	r, err := Open(context.Background(), Options{Dir: dir, Task: "web.x", Kind: Stdout})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	one := make([]byte, 1)
	if _, err := r.Read(one); err != nil || string(one) != "a" {
		t.Fatalf("read %q, %v; want %q", one, err, "a")
	}
	writeString(t, w, "ccddee")
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "addee" {
		t.Fatalf("read %q, %v; want %q", rest, err, "addee")
	}
}

// TestReader_ReturnsTheKeptBytes: a reader gets all bytes of the kept files, however the writes divide them.
func TestReader_ReturnsTheKeptBytes(t *testing.T) {
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		dir := filepath.Join(base, fmt.Sprint(run))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		size := rapid.Int64Range(1, 20).Draw(rt, "size")
		keep := rapid.IntRange(1, 5).Draw(rt, "files")
		w := newRotator(t, dir, keep, size)
		defer w.Close()
		var all []byte
		for range rapid.IntRange(1, 10).Draw(rt, "writes") {
			p := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(rt, "p")
			all = append(all, p...)
			writeString(t, w, string(p))
		}
		got := readOutput(t, Options{Dir: dir, Task: "web.x", Kind: Stdout})
		if !bytes.HasSuffix(all, []byte(got)) || int64(len(got)) > int64(keep)*size {
			rt.Fatalf("wrote %q, read %q; want the end of it", all, got)
		}
		if kept := min(int64(len(all)), int64(keep-1)*size); int64(len(got)) < kept {
			rt.Fatalf("read %d bytes of %d, want at least %d", len(got), len(all), kept)
		}
	})
}
