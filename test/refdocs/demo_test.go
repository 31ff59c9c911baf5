package refdocs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/test/kit"
)

// installed returns the packages that scripts/setup.sh installs on a machine that has no tools.
func installed(t *testing.T, args ...string) []string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		kit.SkipLacking(t, "bash")
	}
	dir := t.TempDir()
	record := filepath.Join(dir, "installed")
	for name, script := range map[string]string{
		"id":      "echo 0",
		"uname":   "echo x86_64",
		"apt-get": `echo "$@" >>` + record,
	} {
		err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700)
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bash, append([]string{"../../scripts/setup.sh"}, args...)...)
	cmd.Env = []string{"PATH=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "install ") {
			continue
		}
		for _, word := range strings.Fields(line)[1:] {
			if !strings.HasPrefix(word, "-") {
				packages = append(packages, word)
			}
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// The demo of a bare machine waits for no packages that only the tests need, such as docker.
func TestDemo_InstallsOnlyWhatItNeeds(t *testing.T) {
	if got := installed(t, "demo"); !slices.Equal(got, []string{"e2fsprogs", "util-linux"}) {
		t.Errorf("the demo installs %q", got)
	}
	all := installed(t, "all")
	for _, name := range []string{"docker.io", "user-mode-linux"} {
		if !slices.Contains(all, name) {
			t.Errorf("the tests do not install %s: %q", name, all)
		}
	}
	want := []string{"e2fsprogs", "iproute2", "iptables", "util-linux", "xfsprogs"}
	if got := installed(t, "test"); !slices.Equal(got, want) {
		t.Errorf("make test installs %q, want %q", got, want)
	}
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`(?m)^demo: setup-demo build `,
		`(?m)^setup-demo: .*\n\t\./scripts/setup\.sh demo$`,
	} {
		if !regexp.MustCompile(line).Match(text) {
			t.Errorf("the Makefile has no line %s", line)
		}
	}
}
