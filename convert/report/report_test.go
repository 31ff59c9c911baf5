package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolder_KeepsFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	f := open(t, dir, false)
	if err := f.Write("jobs/default/web.hcl", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := f.Write("jobs/default/web.hcl", []byte("two")); err == nil {
		t.Error("a file was replaced without -force")
	}
	if _, err := Open(dir, false); err == nil || !strings.Contains(err.Error(), "-force") {
		t.Errorf("a folder with files: got %v, want an error that names -force", err)
	}

	f = open(t, dir, true)
	if err := f.Write("jobs/default/web.hcl", []byte("two")); err != nil {
		t.Fatal(err)
	}
	if err := f.Write("jobs/default/new.hcl", nil); err != nil {
		t.Fatal(err)
	}
	if left := f.Left(); len(left) != 0 {
		t.Errorf("all files are of this run, and got %v", left)
	}
	name := filepath.Join(dir, "jobs/default/web.hcl")
	got, err := os.ReadFile(name)
	info, statErr := os.Stat(name)
	if err != nil || statErr != nil || string(got) != "two" || info.Mode().Perm() != 0o600 {
		t.Errorf("got %q, %v, %v, %v", got, info.Mode(), err, statErr)
	}
	if left := open(t, dir, true).Left(); len(left) != 2 || left[1] != "jobs/default/web.hcl" {
		t.Errorf("the files of the run before are %v", left)
	}
}

func open(t *testing.T, dir string, force bool) *Folder {
	t.Helper()
	f, err := Open(dir, force)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestFolder_IsNotLeft: neither a name nor a link leads out of it.
func TestFolder_IsNotLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "jobs")); err != nil {
		t.Fatal(err)
	}
	f := open(t, dir, true)
	for _, name := range []string{"jobs/a.hcl", "../a.hcl"} {
		if err := f.Write(name, nil); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	left, err := os.ReadDir(outside)
	if err != nil || len(left) > 0 {
		t.Errorf("outside are %v, %v", left, err)
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 500)
	seen := map[string]string{}
	for _, name := range []string{
		"web", "a/b", "a%2Fb", ".", "..", ".web", "", "%", "a.b", "ä", long, long + "y", "a\x00b",
	} {
		got := FileName(name)
		if len(got) == 0 || len(got) > 210 || strings.ContainsAny(got, "/\x00") || strings.HasPrefix(got, ".") {
			t.Errorf("%q: got %q", name, got)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q: both are %q", name, other, got)
		}
		seen[got] = name
	}
}

func TestMarkdown_StaysWhatItIs(t *testing.T) {
	t.Parallel()
	r := &Report{Source: "http://a", Notes: []string{"whole"}}
	r.Add("job", "default", "web`\n## x\x1b[31m").File = "jobs/web.hcl"
	item := r.Add("volume", "default", "db")
	item.Add(Not, "reason\nremedy")
	item.Add(Warnings, "more")
	got := string(r.Markdown())
	want := "# http://a\n\n2 objects: 1 run as they are, 0 with a warning, 1 do not.\n\n- whole\n\n" +
		"## Do not run\n\n- volume `default/db`\n  - reason\n  - remedy\n  - more\n\n" +
		"## Run as they are\n\n- job `default/web' ## x [31m`: `jobs/web.hcl`\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
