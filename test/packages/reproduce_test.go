package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/kit"
)

// reproduce runs scripts/reproduce.sh in a repository whose release is one command.
func reproduce(t *testing.T, release string) (said string, err error) {
	t.Helper()
	repository := t.TempDir()
	script, err := os.ReadFile("../../scripts/reproduce.sh")
	kit.Must(t, err)
	makefile := "release:\n\tmkdir dist && echo same >dist/other\n\t" + release + "\n"
	kit.Must(t, os.Mkdir(filepath.Join(repository, "scripts"), 0o755))
	kit.Must(t, os.WriteFile(filepath.Join(repository, "scripts/reproduce.sh"), script, 0o755))
	kit.Must(t, os.WriteFile(filepath.Join(repository, "Makefile"), []byte(makefile), 0o644))
	git := []string{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@b.invalid"}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "a release"}} {
		output(t, "git", append(git, args...)...)
	}
	// A release has the files of the commit, and no change of the tree.
	kit.Must(t, os.WriteFile(filepath.Join(repository, "Makefile"), []byte("release:\n\tfalse\n"), 0o644))

	cmd := exec.Command(filepath.Join(repository, "scripts/reproduce.sh"))
	work := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+work, "PROGRAM=/absent", "DIST=/absent")
	out, err := cmd.CombinedOutput()
	if left, _ := os.ReadDir(work); len(left) > 0 {
		t.Errorf("the script leaves %v", left)
	}
	return string(out), err
}

// TestReproduce_FindsEachDifference of two releases, and no other.
func TestReproduce_FindsEachDifference(t *testing.T) {
	for title, release := range map[string]string{
		"the path":         "pwd >dist/file",
		"the cache":        `echo "$$GOCACHE" >dist/file`,
		"the zone":         "date -d @0 +%Z >dist/file",
		"the language":     `echo "$$LC_ALL" >dist/file`,
		"one file is more": `case "$$PWD" in */longer) touch dist/file; esac`,
	} {
		said, err := reproduce(t, release)
		if err == nil || !strings.Contains(said, "differ:") || strings.Count(said, "  file\n") == 0 ||
			strings.Contains(said, "+other") {
			t.Errorf("%s: %v: %s", title, err, said)
		}
	}
	same := `test ! -e "$$GOCACHE" && test -z "$$PROGRAM$$DIST" && mkdir "$$GOCACHE" && echo same >dist/file`
	said, err := reproduce(t, same)
	if err != nil || !strings.Contains(said, "are equal: 2 files") ||
		!strings.Contains(said, "the work tree has changes") {
		t.Errorf("two equal releases: %v: %s", err, said)
	}
}
