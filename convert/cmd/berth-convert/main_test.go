package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/cli/command"
	"berth/structs"
)

// run runs the program, and returns its exit code and its outputs.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = program().Main(t.Context(), args, command.Stdio{
		In:  strings.NewReader(""),
		Out: &o,
		Err: &e,
	})
	return code, o.String(), e.String()
}

// TestCompose_WritesAFileOnce, and its notes on the standard error.
func TestCompose_WritesAFileOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.hcl")
	args := []string{"compose", "-class", "db", "-size", "20GiB", "-out", file, "../../../examples/shop.yaml"}
	code, out, errs := run(t, args...)
	text, err := os.ReadFile(file)
	if code != 0 || out != "" || err != nil || !strings.Contains(errs, "not carried: depends_on db") {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	for _, want := range []string{`class = "db"`, `size  = "20GiB"`, `job "shop"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file lacks %s:\n%s", want, text)
		}
	}

	code, _, errs = run(t, args...)
	if code != structs.KindConflict.ExitCode() || !strings.Contains(errs, "-force") {
		t.Errorf("again: exit code %d, %s", code, errs)
	}
	err = os.Chmod(file, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	code, _, errs = run(t, append(args, "-force")...)
	info, err := os.Stat(file)
	if code != 0 || err != nil || info.Mode() != 0o600 {
		t.Errorf("with -force: exit code %d, %v, %v, %s", code, info, err, errs)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("with -force the folder has %v, %v", entries, err)
	}
	code, out, errs = run(t, "compose", "../../../examples/shop.yaml")
	if code != 0 || !strings.Contains(out, `job "shop"`) {
		t.Errorf("to the standard output: exit code %d, %s%s", code, out, errs)
	}
}

// TestUsage_NamesTheRemedy of each wrong use.
func TestUsage_NamesTheRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nomad"}, "-out is missing"},
		{[]string{"nomad", "-out", t.TempDir(), "-address", "x"}, "expected a URL"},
		{[]string{"nomad", "-out", t.TempDir(), "-token-file", "/absent"}, "/absent"},
		{[]string{"nomad", "-out", t.TempDir(), "-ca-cert", "main.go"}, "no certificate"},
		{[]string{"compose"}, "<file> is missing"},
		{[]string{"compose", "-size", "much", "x.yaml"}, "10GiB"},
		{[]string{"compose", "-size", "2EiB", "x.yaml"}, "10GiB"},
		{[]string{"compose", "/absent.yaml"}, "/absent.yaml"},
		{[]string{"convert"}, "there is no command"},
	} {
		code, _, errs := run(t, c.args...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, code, errs)
		}
	}
}

// TestCompletion_IsOfThisProgram, and its manual page has the commands that users see.
func TestCompletion_IsOfThisProgram(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, errs := run(t, "completion", shell)
		if code != 0 || !strings.Contains(out, "berth-convert complete -- ") || strings.Contains(out, "berth ") {
			t.Errorf("%s: exit code %d, %s%s", shell, code, out, errs)
		}
	}
	if _, out, _ := run(t, "complete", "--", "co"); out != "compose\ncompletion\n" {
		t.Errorf("the words that begin with co: %s", out)
	}
	if _, out, _ := run(t, "complete", "--", "nomad", "-to"); out != "-token-file\n" {
		t.Errorf("the options of nomad that begin with -to: %s", out)
	}

	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	code, page, errs := run(t, "manual")
	for _, want := range []string{
		`.TH "BERTH-CONVERT" 1 "2023-11-14"`,
		`.SH "berth\-convert nomad"`,
		`\-token\-file`,
		`.SH "berth\-convert compose"`,
		`.SH "berth\-convert completion"`,
	} {
		if code != 0 || !strings.Contains(page, want) {
			t.Errorf("the page lacks %s: exit code %d, %s%s", want, code, page, errs)
		}
	}
	if strings.Contains(page, "manual page") {
		t.Errorf("the page has the hidden command:\n%s", page)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "now")
	if code, _, errs := run(t, "manual"); code != 2 || !strings.Contains(errs, `"now"`) {
		t.Errorf("with a bad date: exit code %d, %s", code, errs)
	}
}

// TestDocs_ShowOptionsOfTheProgram parses each command line of it in the documentation.
func TestDocs_ShowOptionsOfTheProgram(t *testing.T) {
	t.Parallel()
	shown := regexp.MustCompile(`(?m)^    berth-convert (\w+) (.*)$`)
	for _, page := range []string{"coming-from-nomad.md", "coming-from-docker.md"} {
		text, err := os.ReadFile(filepath.Join("../../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		lines := shown.FindAllStringSubmatch(string(text), -1)
		if len(lines) == 0 {
			t.Errorf("%s shows no command", page)
		}
		for _, m := range lines {
			cmd := command.Find(commands, m[1])
			c := &command.Call{Command: cmd}
			err = c.Parse(strings.Fields(m[2]))
			if err == nil {
				err = command.CheckArgs(cmd.Args, c.Args)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", page, m[0], err)
			}
		}
	}
}
