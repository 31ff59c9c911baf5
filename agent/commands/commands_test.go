package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/agent"
	"berth/cli"
	"berth/cli/command"
)

// runLine runs a command line with all commands.
func runLine(t *testing.T, line string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = cli.Run(t.Context(), strings.Fields(line), command.Stdio{
		In:  strings.NewReader(""),
		Out: &o,
		Err: &e,
	}, All()...)
	return code, o.String(), e.String()
}

func TestCommands_HelpFitsOnATerminal(t *testing.T) {
	for _, line := range []string{"-h", "agent -h", "plugin -h", "plugin hostpath -h", "config validate -h"} {
		code, out, errs := runLine(t, line)
		if code != 0 || errs != "" || !strings.HasPrefix(out, "Usage: berth") {
			t.Errorf("%s: got exit code %d: %q", line, code, errs)
		}
		for text := range strings.Lines(out) {
			if len(text) > 81 {
				t.Errorf("%s: got a line of %d characters: %s", line, len(text)-1, text)
			}
		}
	}
}

func TestCommands_NameInvalidAndMissingOptions(t *testing.T) {
	t.Setenv("CSI_ENDPOINT", "")
	t.Setenv("BERTH_PLUGIN_DATA", "")
	t.Setenv(tokenVariable, "")
	empty := t.TempDir()
	joined := t.TempDir() // the settings of a machine that has joined: -join does nothing
	err := os.WriteFile(filepath.Join(joined, "tls.hcl"), []byte("tls {\n  mode = \"off\"\n}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(t.TempDir(), "node.hcl")
	err = os.WriteFile(node, []byte("client {\n  enabled = true\n}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		want []string
	}{
		{"agent", []string{"-dev", "neither server nor client"}},
		{"agent -join 127.0.0.1:1", []string{"-config with the directory"}},
		{"agent -join 127.0.0.1:1 -config " + empty, []string{tokenVariable, "berth node join-token create"}},
		{"agent -join 127.0.0.1:1 -config " + joined, []string{"neither server nor client"}},
		{"agent -zap", []string{"no option -zap", `"berth agent -h"`}},
		{"agent -server-only -config " + node, []string{"enables the client", "the unit berth.service"}},
		{"agent -server-only -client -config " + joined, []string{"the unit berth.service"}},
		{"agent -server-only -dev", []string{"the unit berth.service"}},
		{"agent -server-only -client=false -config " + node, []string{"neither server nor client"}},
		{"agent -server-only -config " + joined, []string{"neither server nor client"}},
		{"agent -server-only -config /none.hcl", []string{"/none.hcl"}},
		{"agent -http-port many", []string{"-http-port", "whole number"}},
		{"plugin hostpath", []string{"endpoint", "node id", "data directory"}},
		{"plugin hostpath -capacity much", []string{"-capacity", "10GiB"}},
		{"plugin hostpath -log-level loud", []string{"-log-level", "debug"}},
	} {
		code, _, errs := runLine(t, c.line)
		want := 2
		if strings.HasPrefix(c.line, "agent") {
			want = agent.ExitConfig // the units of systemd know it
		}
		if code != want {
			t.Errorf("%s: got exit code %d, want %d", c.line, code, want)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q lacks %q", c.line, errs, want)
			}
		}
	}
}

func TestConfigValidate_NamesTheFaultsOfAllFiles(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"whole.hcl":  "bind_addr = \"127.0.0.1\"\nclient { enabled = true }\n",
		"part.hcl":   "log_level = \"debug\"\n",
		"level.hcl":  "log_level = \"loud\"\n",
		"syntax.hcl": "client {\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string][]string{
		"":                             {"<path>... is missing"},
		"whole.hcl":                    nil,
		"whole.hcl part.hcl":           nil,
		"part.hcl":                     {"neither server nor client"},
		"whole.hcl level.hcl":          {`log_level is "loud"`, "level.hcl:1"},
		"level.hcl whole.hcl":          {`log_level is "loud"`, "level.hcl:1"},
		"syntax.hcl none.hcl":          {"syntax.hcl:", "none.hcl: no such file"},
		".":                            {"syntax.hcl:"},
		"level.hcl part.hcl whole":     {"whole: no such file"},
		"level.hcl part.hcl whole.hcl": nil,
	} {
		line := "config validate"
		for _, arg := range strings.Fields(args) {
			line += " " + filepath.Join(dir, arg)
		}
		code, out, errs := runLine(t, line)
		if (code == 0) != (want == nil) || want != nil && code != 2 ||
			(out == "The configuration is valid\n") != (want == nil) {
			t.Errorf("%s: got exit code %d, %q and %q", args, code, out, errs)
		}
		for _, part := range want {
			if !strings.Contains(errs, part) {
				t.Errorf("%s: got %q, want %q", args, errs, part)
			}
		}
	}
}
