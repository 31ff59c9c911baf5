package agentlog

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clock is a time that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// open opens a log file in a new directory, with a clock of the test.
func open(t *testing.T, cfg Config) (f *File, stderr *bytes.Buffer, at *clock) {
	t.Helper()
	cfg.Path = cmp.Or(cfg.Path, filepath.Join(t.TempDir(), "logs", "berth.log"))
	if cfg.RotateDuration == 0 {
		cfg.RotateDuration = 24 * time.Hour
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	stderr = &bytes.Buffer{}
	f, err := Open(cfg, stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	at = &clock{at: time.Now()}
	f.lines.Now = at.now
	f.lines.begun = at.at
	return f, stderr, at
}

// write writes a line of a size, with its end.
func write(t *testing.T, f *File, text string, size int) {
	t.Helper()
	line := text + strings.Repeat(".", size-len(text)-1) + "\n"
	if _, err := f.Write([]byte(line)); err != nil {
		t.Fatal(err)
	}
}

// starts returns the first byte of each renamed file, and then of the file.
func starts(t *testing.T, f *File) string {
	t.Helper()
	paths, err := RotatedFiles(f.lines.Path)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, path := range append(paths, f.lines.Path) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text += string(append(b, '-')[:1])
	}
	return text
}

func TestFile_IsRenamedBySize(t *testing.T) {
	f, stderr, at := open(t, Config{RotateBytes: minBytes, RotateMaxFiles: 2})
	for _, text := range []string{"a", "b", "c", "d", "e"} {
		at.at = at.at.Add(time.Second)
		write(t, f, text, minBytes/2+1)
	}
	if got := starts(t, f); got != "cde" {
		t.Errorf("the files begin with %q, want the newest three: cde", got)
	}
	if got := strings.Count(stderr.String(), "\n"); got != 5 {
		t.Errorf("standard error has %d lines, want 5", got)
	}
}

func TestFile_IsRenamedByAge(t *testing.T) {
	f, _, at := open(t, Config{RotateDuration: time.Hour})
	write(t, f, "a", 10)
	at.at = at.at.Add(59 * time.Minute)
	write(t, f, "b", 10)
	at.at = at.at.Add(time.Minute)
	write(t, f, "c", 10)
	if got := starts(t, f); got != "ac" {
		t.Errorf("the files begin with %q, want ac", got)
	}
}

// The name of the renamed file would be too long.
func TestFile_TakesLinesAlsoIfItCannotBeRenamed(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 250))
	f, stderr, _ := open(t, Config{Path: long, RotateBytes: minBytes, RotateMaxFiles: 1})
	write(t, f, "a", minBytes)
	write(t, f, "b", minBytes)
	info, err := os.Stat(long)
	if err != nil || info.Size() != 2*minBytes {
		t.Errorf("the file is %+v, %v", info, err)
	}
	if !strings.Contains(stderr.String(), "file name too long") {
		t.Error("standard error does not tell of the fault")
	}
}

func TestFile_KeepsNoRenamedFile(t *testing.T) {
	f, _, _ := open(t, Config{RotateBytes: minBytes, RotateMaxFiles: -1})
	write(t, f, "a", minBytes)
	write(t, f, "b", minBytes)
	if got := starts(t, f); got != "b" {
		t.Errorf("the files begin with %q, want b", got)
	}
}

// A program of the operator may rename the file, or delete it with its directory.
func TestFile_IsMadeAgain(t *testing.T) {
	f, stderr, _ := open(t, Config{})
	write(t, f, "a", 10)
	aside := f.lines.Path + ".1"
	if err := os.Rename(f.lines.Path, aside); err != nil {
		t.Fatal(err)
	}
	write(t, f, "b", 10)
	if got := starts(t, f); got != "b" {
		t.Errorf("after a rename the file begins with %q, want b", got)
	}

	if err := os.RemoveAll(filepath.Dir(f.lines.Path)); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	write(t, f, "c", 10)
	write(t, f, "d", 10)
	got := stderr.String()
	if strings.Count(got, "log_file: the file lacks lines") != 1 || strings.Count(got, "\n") != 3 {
		t.Errorf("without the directory standard error has %q, want both lines and the fault once", got)
	}
	if err := os.Mkdir(filepath.Dir(f.lines.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, f, "e", 10)
	if got := starts(t, f); got != "e" {
		t.Errorf("with the directory again the file begins with %q, want e", got)
	}
}

func TestFile_GoesOnAfterARestart(t *testing.T) {
	f, _, _ := open(t, Config{RotateBytes: minBytes})
	write(t, f, "a", minBytes)
	f.Close()
	cfg := Config{Path: f.lines.Path, RotateBytes: minBytes, RotateDuration: time.Hour}
	again, err := Open(cfg, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	write(t, again, "b", 10)
	if got := starts(t, again); got != "ab" {
		t.Errorf("the files begin with %q, want ab: the size of the first one counts", got)
	}
}

func TestFiles_HasThoseThatHaveChanged(t *testing.T) {
	f, _, at := open(t, Config{RotateBytes: minBytes})
	write(t, f, "a", minBytes)
	at.at = at.at.Add(time.Second)
	write(t, f, "b", minBytes)
	renamed, err := RotatedFiles(f.lines.Path)
	if err != nil || len(renamed) != 1 {
		t.Fatalf("got %q, %v", renamed, err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(renamed[0], old, old); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]int{2 * time.Hour: 2, time.Minute: 1} {
		got, err := Files(f.lines.Path, time.Now().Add(-age))
		if err != nil || len(got) != want || got[len(got)-1] != f.lines.Path {
			t.Errorf("within %s: got %q, %v; want %d files", age, got, err, want)
		}
	}
}

func TestFile_FollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "berth.log")
	if err := os.Symlink(filepath.Join(dir, "other"), path); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Path: path, RotateDuration: time.Hour}, &bytes.Buffer{})
	if err == nil {
		t.Fatal("a link was opened")
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target of the link: %v, want none", err)
	}
}

func TestConfig_FaultsNameTheSetting(t *testing.T) {
	valid := Config{Path: "/var/log/", RotateDuration: time.Hour}
	valid.Finish()
	if err := valid.Validate(); err != nil || valid.Path != "/var/log/berth.log" {
		t.Errorf("a directory: %q, %v; want the file berth.log in it", valid.Path, err)
	}
	for setting, c := range map[string]Config{
		"log_file":             {Path: "berth.log", RotateDuration: time.Hour},
		"log_rotate_bytes":     {RotateBytes: 1, RotateDuration: time.Hour},
		"log_rotate_duration":  {},
		"log_rotate_max_files": {RotateMaxFiles: -2, RotateDuration: time.Hour},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), setting+" is") {
			t.Errorf("%s: got %v", setting, err)
		}
	}
}
