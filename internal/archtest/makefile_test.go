package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A target with a pipe fails if the tests before the pipe fail, although the last command succeeds.
func TestMakefile_APipeFailsWithEachCommand(t *testing.T) {
	t.Parallel()
	tests := filepath.Join(t.TempDir(), "go")
	script := "#!/bin/sh\ncase $1 in test) echo '99 of 100'; exit 1 ;; esac\n"
	err := os.WriteFile(tests, []byte(script), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", "-s", "lease-release", "GO="+tests)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "99 of 100") {
		t.Errorf("make ended with %v:\n%s", err, out)
	}
}

// Each target whose recipe has a pipe is in the list of those that have the option pipefail.
func TestMakefile_AllTargetsWithPipesHaveTheOption(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	safe := regexp.MustCompile(`(?m)^(.*): private \.SHELLFLAGS := -o pipefail -c$`).FindSubmatch(text)
	if safe == nil {
		t.Fatal("no target has the option pipefail")
	}
	pipe := regexp.MustCompile(`[^|]\|([^|]|$)`)
	quoted := regexp.MustCompile(`'[^']*'`)
	target, found := "", 0
	for line := range strings.Lines(string(text)) {
		name, _, isTarget := strings.Cut(line, ": ")
		switch {
		case isTarget && !strings.HasPrefix(line, "\t"):
			target = name
		case strings.HasPrefix(line, "\t") && pipe.MatchString(quoted.ReplaceAllString(line, "")):
			found++
			if !strings.Contains(" "+string(safe[1])+" ", " "+target+" ") {
				t.Errorf("the target %s has a pipe without the option pipefail: %s", target, line)
			}
		}
	}
	if found < 4 {
		t.Errorf("%d pipes found; expected those of lease-release, cover, check and fmt", found)
	}
}
