package auditlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

func TestFile_IsOfItsOwnerAlone(t *testing.T) {
	w := newWorld(t)
	kit.Must(t, os.Mkdir(w.path(""), 0o755))
	kit.Must(t, os.WriteFile(w.path("audit.log"), nil, 0o644))
	w.change(w.open(), "x")
	info, err := os.Stat(w.path("audit.log"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}

	other := newWorld(t)
	path := other.path("deep/er/a.log")
	other.change(other.open(&Sink{Name: "a", Type: TypeFile, Path: path, Mode: "0640"}), "x")
	info, err = os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	info, err = os.Stat(other.path(""))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode of a new directory is %v, %v", info.Mode(), err)
	}
}

// TestFile_IsFoundAgain takes the file away in several ways. Each line after that is in the file at the path,
// and no line is lost that was not deleted.
func TestFile_IsFoundAgain(t *testing.T) {
	for name, c := range map[string]struct {
		take func(w *world) error
		kept string // has the first line after that
	}{
		"renamed, with another in its place": {func(w *world) error {
			kit.Must(t, os.Rename(w.path("audit.log"), w.path("by-hand")))
			return os.WriteFile(w.path("audit.log"), nil, 0o600)
		}, "by-hand"},
		"deleted":            {func(w *world) error { return os.Remove(w.path("audit.log")) }, ""},
		"renamed":            {func(w *world) error { return os.Rename(w.path("audit.log"), w.path("by-hand")) }, "by-hand"},
		"with its directory": {func(w *world) error { return os.RemoveAll(w.path("")) }, ""},
		"replaced": {func(w *world) error {
			return os.WriteFile(w.path("new"), nil, 0o600)
		}, ""},
	} {
		w := newWorld(t)
		l := w.open()
		w.change(l, "first")
		kit.Must(t, c.take(w))
		want := "secondr secondc"
		if name == "replaced" {
			kit.Must(t, os.Rename(w.path("new"), w.path("audit.log")))
		}
		w.change(l, "second")
		if got := w.lines(w.path("audit.log")); got != want {
			t.Errorf("%s: got the lines %q, want %q", name, got, want)
		}
		if c.kept != "" && w.lines(w.path(c.kept)) != "firstr firstc" {
			t.Errorf("%s: the first lines are not in %s", name, c.kept)
		}
	}
}

// TestFile_DeletedDuringAWriteIsMadeAnew deletes the file after the sink has looked for it.
func TestFile_DeletedDuringAWriteIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.open()
	f := w.file()
	f.Now = func() time.Time {
		_ = os.Remove(w.path("audit.log"))
		f.Now = w.time
		return w.time()
	}
	kit.Must(t, f.prepare())
	f.Now = func() time.Time {
		kit.Must(t, os.Remove(w.path("audit.log")))
		f.Now = w.time
		return w.time()
	}
	kit.Must(t, f.write([]byte("{\"request_id\":\"x\"}\n")))
	f.close()
	if got := w.lines(w.path("audit.log")); got != "x" {
		t.Errorf("got the lines %q", got)
	}
}

// file returns a sink with the default file.
func (w *world) file() *file {
	s := &Sink{Name: "audit", Type: TypeFile}
	c := Config{Sinks: []*Sink{s}}
	c.Finish(w.dir)
	return newFile(*s, w.time, func(err error) { w.Error(err) })
}

// TestFile_ALineThatACrashHasCutEndsAtTheStart has a file whose last write was cut.
func TestFile_ALineThatACrashHasCutEndsAtTheStart(t *testing.T) {
	w := newWorld(t)
	w.change(w.open(), "whole")
	f, err := os.OpenFile(w.path("audit.log"), os.O_APPEND|os.O_WRONLY, 0)
	kit.Must(t, err)
	_, err = f.WriteString(`{"time":"2026-05-0`)
	kit.Must(t, err)
	kit.Must(t, f.Close())
	w.change(w.open(), "next")
	if got := w.lines(w.path("audit.log")); got != "wholer wholec ? nextr nextc" {
		t.Errorf("got the lines %q", got)
	}
}

func TestFile_TakesNoFileOfOthers(t *testing.T) {
	root := os.Getuid() == 0
	for name, c := range map[string]struct {
		make func(w *world) error
		want string
		root bool
	}{
		"a link": {func(w *world) error { return os.Symlink(w.dir+"/target", w.path("audit.log")) }, "it is a symbolic link", false},
		"a hard link": {func(w *world) error {
			kit.Must(t, os.WriteFile(w.dir+"/target", nil, 0o600))
			return os.Link(w.dir+"/target", w.path("audit.log"))
		}, "has 2 names", false},
		"a pipe": {func(w *world) error { return unix.Mkfifo(w.path("audit.log"), 0o600) }, "", false},
		"a pipe with a reader": {func(w *world) error {
			kit.Must(t, unix.Mkfifo(w.path("audit.log"), 0o600))
			r, err := os.OpenFile(w.path("audit.log"), os.O_RDONLY|unix.O_NONBLOCK, 0)
			w.Cleanup(func() { _ = r.Close() })
			return err
		}, "it is no plain file", false},
		"a directory": {func(w *world) error { return os.Mkdir(w.path("audit.log"), 0o700) }, "is a directory", false},
		"a file of another user": {func(w *world) error {
			kit.Must(t, os.WriteFile(w.path("audit.log"), nil, 0o600))
			return os.Chown(w.path("audit.log"), 65534, 65534)
		}, "belongs to user 65534", true},
		"a directory of another user": {func(w *world) error { return os.Chown(w.path(""), 65534, 65534) },
			"belongs to user 65534", true},
		"a directory of all": {func(w *world) error { return os.Chmod(w.path(""), 0o777) }, "may write to the directory", false},
		"below a directory of all": {func(w *world) error { return os.Chmod(w.dir, 0o777) },
			"may write to the directory", false},
		"a link to below a directory of all": {func(w *world) error {
			kit.Must(t, os.MkdirAll(w.dir+"/all/real", 0o700))
			kit.Must(t, os.Chmod(w.dir+"/all", 0o777))
			kit.Must(t, os.Remove(w.path("")))
			return os.Symlink(w.dir+"/all/real", w.path(""))
		}, "may write to the directory", false},
		"a link of another user": {func(w *world) error {
			kit.Must(t, os.Rename(w.path(""), w.dir+"/real"))
			kit.Must(t, os.Symlink(w.dir+"/real", w.path("")))
			return os.Lchown(w.path(""), 65534, 65534)
		}, "belongs to user 65534", true},
	} {
		if c.root && !root {
			continue // as another user a file cannot be given away
		}
		w := newWorld(t)
		kit.Must(t, os.Mkdir(w.path(""), 0o700))
		kit.Must(t, c.make(w))
		_, err := w.tryOpen()
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(w.dir + "/target"); name == "a link" && !os.IsNotExist(err) {
			t.Errorf("the target of the link was made: %v", err)
		}
	}
	if !root {
		kit.SkipLacking(t, "root: gives files to another user")
	}
}

// TestFile_MakesNothingWhereALinkOfOthersLeads has a link of another user above a directory that is missing.
func TestFile_MakesNothingWhereALinkOfOthersLeads(t *testing.T) {
	if os.Getuid() != 0 {
		kit.SkipLacking(t, "root: gives a link to another user")
	}
	w := newWorld(t)
	kit.Must(t, os.Mkdir(w.dir+"/target", 0o700))
	kit.Must(t, os.Symlink(w.dir+"/target", w.path("")))
	kit.Must(t, os.Lchown(w.path(""), 65534, 65534))
	_, err := w.tryOpen(&Sink{Name: "a", Type: TypeFile, Path: w.path("deep/a.log")})
	if err == nil {
		t.Error("the log is below a link of another user")
	}
	entries, err := os.ReadDir(w.dir + "/target")
	if err != nil || len(entries) > 0 {
		t.Errorf("the target has %v, %v", entries, err)
	}
}

func TestFile_IsRenamedWhenItIsLarge(t *testing.T) {
	w := newWorld(t)
	l := w.open(&Sink{Name: "audit", Type: TypeFile, RotateBytes: minRotateBytes, RotateMaxFiles: 2})
	for i := range 8 {
		// The clock stands still, and is set back once: no file replaces another one.
		if i == 4 {
			w.pass(-time.Second)
		}
		e := &Event{RequestID: fmt.Sprint(i), Endpoint: strings.Repeat("x", MaxLine/2)}
		kit.Must(t, l.Begin(t.Context(), e))
		e.Endpoint = ""
		l.End(t.Context(), e)
	}
	names := w.files()
	if len(names) != 3 || w.lines(w.path("audit.log")) != "7r 7c" {
		t.Fatalf("got the files %v", names)
	}
	for _, name := range names {
		info, err := os.Stat(w.path(name))
		if err != nil || info.Size() > minRotateBytes || info.Mode() != 0o600 {
			t.Errorf("%s: %d bytes, mode %v, %v", name, info.Size(), info.Mode(), err)
		}
	}
}

// TestFile_KeepsTheNewestAndFilesOfOthers deletes its own renamed files alone.
func TestFile_KeepsTheNewestAndFilesOfOthers(t *testing.T) {
	w := newWorld(t)
	kit.Must(t, os.Mkdir(w.path(""), 0o700))
	own := []string{"audit.log-x", "audit-20260504T030201.log", "other-20250504T030201.000000000Z.log"}
	for _, name := range own {
		kit.Must(t, os.WriteFile(w.path(name), nil, 0o600))
	}
	own = append(own, "audit-20250504T030201.000000000Z.log")
	kit.Must(t, os.Mkdir(w.path(own[3]), 0o700))
	l := w.open(&Sink{Name: "audit", Type: TypeFile, RotateDuration: time.Hour, RotateMaxFiles: 1})
	for _, id := range []string{"a", "b", "c"} {
		w.change(l, id)
		w.pass(time.Hour)
	}
	want := append([]string{"audit.log", "audit-20260504T050201.000000000Z.log"}, own...)
	names := w.files()
	if len(names) != len(want) {
		t.Errorf("got the files %v, want %v", names, want)
	}
	if got := w.lines(w.path(want[1])); got != "br bc" {
		t.Errorf("the renamed file has the lines %q", got)
	}
	if w.log.String() != "" {
		t.Errorf("the log of the agent tells of %s", &w.log)
	}
}

// TestFile_HasItsAgeAfterARestart opens a file of an hour ago.
func TestFile_HasItsAgeAfterARestart(t *testing.T) {
	w := newWorld(t)
	sink := Sink{Name: "audit", Type: TypeFile, RotateDuration: time.Hour}
	w.change(w.open(&sink), "a")
	w.pass(59 * time.Minute)
	w.change(w.open(&sink), "b")
	w.pass(time.Minute)
	l := w.open(&sink)
	if names := w.files(); len(names) != 2 {
		t.Errorf("the start has left the files %v, want the old one renamed", names)
	}
	w.change(l, "c")
	if got := w.lines(w.path("audit.log")); got != "cr cc" {
		t.Errorf("the file has the lines %q", got)
	}
}

// TestFile_ALineOfTheFutureIsAsOldAsTheStart sets the clock back between two starts.
func TestFile_ALineOfTheFutureIsAsOldAsTheStart(t *testing.T) {
	w := newWorld(t)
	sink := Sink{Name: "audit", Type: TypeFile, RotateDuration: time.Hour}
	w.change(w.open(&sink), "a")
	w.pass(-10 * time.Hour)
	l := w.open(&sink)
	w.pass(time.Hour)
	w.change(l, "b")
	if got := w.lines(w.path("audit.log")); got != "br bc" {
		t.Errorf("the file has the lines %q", got)
	}
}

func TestFile_IsNotRenamedWhileItIsEmpty(t *testing.T) {
	w := newWorld(t)
	l := w.open(&Sink{Name: "audit", Type: TypeFile, RotateDuration: time.Hour})
	w.pass(2 * time.Hour)
	w.change(l, "a")
	if names := w.files(); len(names) != 1 {
		t.Errorf("got the files %v", names)
	}
}

// TestFile_MayHaveAllItsBytes writes lines that fill a file to the last byte, and one more.
func TestFile_MayHaveAllItsBytes(t *testing.T) {
	w := newWorld(t)
	w.open(&Sink{Name: "audit", Type: TypeFile, RotateBytes: minRotateBytes})
	f := w.file()
	f.Bytes = minRotateBytes
	defer f.close()
	half := []byte(strings.Repeat("x", minRotateBytes/2-1) + "\n")
	for i, want := range []int{1, 1, 2} {
		kit.Must(t, f.write(half))
		if names := w.files(); len(names) != want {
			t.Errorf("after write %d there are the files %v", i, names)
		}
	}
}

// TestFile_StaysOpen has one descriptor, also after rotations, and none after its end.
func TestFile_StaysOpen(t *testing.T) {
	w := newWorld(t)
	before := descriptors(t)
	l := w.open(&Sink{Name: "audit", Type: TypeFile, RotateDuration: time.Hour})
	f := l.sinks[0].sink.(*file)
	w.change(l, "a")
	first := f.File
	w.change(l, "b")
	if f.File != first {
		t.Error("the file is opened for each line")
	}

	for range 5 {
		w.pass(time.Hour)
		w.change(l, "c")
	}
	if n := descriptors(t); n != before+1 {
		t.Errorf("%d descriptors are open, want 1", n-before)
	}
	f.close()
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors are open after the end", n-before)
	}
	if names := w.files(); len(names) != 6 {
		t.Errorf("got the files %v, want all that were renamed", names)
	}
}

// descriptors counts the files that the process has open below the directories of tests.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	kit.Must(t, err)
	for _, e := range entries {
		path, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(path, os.TempDir()) && strings.HasSuffix(path, ".log") {
			n++
		}
	}
	return n
}

// TestFile_IsOpenedAnewAfterAFault has files on which a write, a sync or the opening fails.
func TestFile_IsOpenedAnewAfterAFault(t *testing.T) {
	w := newWorld(t)
	w.open()
	f := w.file()
	kit.Must(t, f.prepare())
	kit.Must(t, f.File.Close())
	readOnly, err := os.Open(w.path("audit.log"))
	kit.Must(t, err)
	f.File = readOnly
	err = f.write([]byte("{\"request_id\":\"lost\"}\n"))
	if err == nil || !strings.Contains(err.Error(), "bad file descriptor") {
		t.Errorf("a write to a file that is only read: got %v", err)
	}
	kit.Must(t, f.write([]byte("{\"request_id\":\"x\"}\n")))
	if got := w.lines(w.path("audit.log")); got != "x" {
		t.Errorf("got the lines %q", got)
	}
	f.close()

	r, pipe, err := os.Pipe()
	kit.Must(t, err)
	defer func() { kit.Must(t, errors.Join(r.Close(), pipe.Close())) }()
	f.File = pipe
	if f.append([]byte("x\n")) == nil {
		t.Error("a file without a sync takes lines")
	}
	f.File = nil

	kit.Must(t, os.Link(w.path("audit.log"), w.path("other")))
	if f.prepare() == nil || f.File != nil {
		t.Errorf("a file with two names stays open: %v", f.File)
	}
}

func TestFile_NamesTheFaultOfAWrite(t *testing.T) {
	w := newWorld(t)
	l := w.open()
	kit.Must(t, os.RemoveAll(w.path("")))
	kit.Must(t, os.WriteFile(w.path(""), nil, 0o600))
	err := l.Begin(t.Context(), &Event{})
	if err == nil || !strings.Contains(err.Error(), w.path("audit.log")+": ") ||
		!strings.Contains(err.Error(), "not a directory") {
		t.Errorf("got %v", err)
	}
}

func TestFile_AFileThatShrinksMeanwhileIsAFault(t *testing.T) {
	w := newWorld(t)
	w.change(w.open(), "a")
	f := w.file()
	kit.Must(t, f.prepare())
	defer f.close()
	kit.Must(t, os.Truncate(w.path("audit.log"), 1))
	if _, err := f.readEnds(w.time()); err == nil {
		t.Error("the bytes that are gone are read")
	}
}

func TestFile_MayBeBehindAnOwnLink(t *testing.T) {
	w := newWorld(t)
	kit.Must(t, os.Mkdir(w.dir+"/real", 0o700))
	kit.Must(t, os.Symlink(w.dir+"/real", w.path("")))
	w.change(w.open(), "a")
	if got := w.lines(w.dir + "/real/audit.log"); got != "ar ac" {
		t.Errorf("got the lines %q", got)
	}
}

// TestFile_GrowsIfItCannotBeRenamed has a file whose name with a time is too long. No line is lost.
func TestFile_GrowsIfItCannotBeRenamed(t *testing.T) {
	w := newWorld(t)
	path := w.path(strings.Repeat("n", 240) + ".log")
	l := w.open(&Sink{Name: "audit", Type: TypeFile, Path: path, RotateDuration: time.Hour})
	w.change(l, "a")
	w.pass(time.Hour)
	w.change(l, "b")
	if got := w.lines(path); got != "ar ac br bc" {
		t.Errorf("got the lines %q", got)
	}
	if !strings.Contains(w.log.String(), "failed to rotate an audit log") ||
		!strings.Contains(w.log.String(), "file name too long") {
		t.Errorf("the log of the agent does not tell it: %s", &w.log)
	}
}

func TestFile_IsOpenedAgain(t *testing.T) {
	w := newWorld(t)
	l := w.open()
	before := inode(t, l)
	l.Reopen()
	w.change(l, "x")
	if inode(t, l) != before || w.lines(w.path("audit.log")) != "xr xc" {
		t.Error("the file is another one after a reopen")
	}
	entries, err := filepath.Glob(w.path("*"))
	if err != nil || len(entries) != 1 {
		t.Errorf("got the files %v, %v", entries, err)
	}
}

func inode(t *testing.T, l *Log) uint64 {
	var is unix.Stat_t
	kit.Must(t, unix.Fstat(int(l.sinks[0].sink.(*file).File.Fd()), &is))
	return is.Ino
}
