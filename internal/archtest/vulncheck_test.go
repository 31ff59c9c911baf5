package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/kit"
)

// vulncheck runs `make vulncheck` with a govulncheck that ends with an exit code, and a database in dir. It
// returns the output and the error.
func vulncheck(t *testing.T, found, database string) (string, error) {
	t.Helper()
	fake := filepath.Join(t.TempDir(), "go")
	script := "#!/bin/sh\necho \"go $*\"\nexit " + found + "\n"
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", "-s", "vulncheck", "GO="+fake)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOVULNDB="+database)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// localDatabase returns the address of a directory with the file by which a database is known.
func localDatabase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "index"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index", "db.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + dir
}

func TestVulncheck_LooksAtTheModulesOfBerth(t *testing.T) {
	t.Parallel()
	needsCurl(t)
	database := localDatabase(t)
	out, err := vulncheck(t, "0", database)
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, module := range []string{".", "convert", "test/interop", "test/ui"} {
		if !strings.Contains(out, "go run -C "+module+" golang.org/x/vuln/cmd/govulncheck@v") {
			t.Errorf("the module %s is not looked at:\n%s", module, out)
		}
	}
	if n := strings.Count(out, "-db "+database); n != 4 {
		t.Errorf("the database is used %d times, want 4:\n%s", n, out)
	}
}

func TestVulncheck_FailsWithAFinding(t *testing.T) {
	t.Parallel()
	needsCurl(t)
	if out, err := vulncheck(t, "3", localDatabase(t)); err == nil {
		t.Errorf("a finding ends without an error:\n%s", out)
	}
}

// A database that cannot be reached is no error. One that is not there is.
func TestVulncheck_NamesItselfSkippedWithoutADatabase(t *testing.T) {
	t.Parallel()
	needsCurl(t)
	out, err := vulncheck(t, "3", "http://127.0.0.1:1")
	if err != nil || !strings.HasPrefix(out, "vulncheck: SKIPPED, ") || strings.Count(out, "\n") != 1 {
		t.Errorf("the end is %v, want one line that says skipped:\n%s", err, out)
	}
	if out, err := vulncheck(t, "0", "file://"+t.TempDir()); err == nil {
		t.Errorf("an empty directory passes for a database:\n%s", out)
	}
}

func needsCurl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		kit.SkipLacking(t, "curl")
	}
}
