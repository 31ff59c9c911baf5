package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/kit"
)

func TestPages_HaveAllCommandsAndNoFaultOfTheLanguage(t *testing.T) {
	dir := t.TempDir()
	err := run([]string{dir}, "1700000000")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"berth.1":            `.B berth\-doctor(1)`,
		"berth-job.1":        `.SH "berth job run"`,
		"berth-volume.1":     `.B berth volume why`,
		"berth-completion.1": `source <(berth completion bash)`,
		"berth-agent.1":      `"2023-11-14"`,
	} {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s lacks %s: %v", name, want, err)
		}
	}

	overview, err := os.ReadFile(filepath.Join(dir, "berth.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"/etc/berth", "/etc/default/berth", "/var/lib/berth", "/var/lib/berth/berth.sock", "/run/berth/berth.sock",
		"/usr/share/doc/berth/docs",
	} {
		if !strings.Contains(string(overview), "\n.B "+file+"\n") {
			t.Errorf("berth.1 lacks the file %s", file)
		}
	}

	groff, err := exec.LookPath("groff")
	if err != nil {
		kit.SkipLacking(t, "the program groff")
	}
	files, err := filepath.Glob(dir + "/*.1")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d pages: %v", len(files), err)
	}
	for _, file := range files {
		out, err := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z", file).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", filepath.Base(file), err, out)
		}
	}
}

func TestRun_NamesItsFaults(t *testing.T) {
	if err := run(nil, "1"); err == nil || !strings.Contains(err.Error(), "0 arguments") {
		t.Errorf("got %v", err)
	}
	if err := run([]string{t.TempDir()}, "now"); err == nil || !strings.Contains(err.Error(), `"now"`) {
		t.Errorf("got %v", err)
	}
}
