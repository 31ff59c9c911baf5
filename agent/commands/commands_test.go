package commands

import (
	"bytes"
	"strings"
	"testing"

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
	for _, line := range []string{"-h", "agent -h", "plugin -h", "plugin hostpath -h"} {
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
	for _, c := range []struct {
		line string
		want []string
	}{
		{"agent", []string{"-dev", "data_dir"}},
		{"agent -zap", []string{"no option -zap", `"berth agent -h"`}},
		{"agent -http-port many", []string{"-http-port", "whole number"}},
		{"plugin hostpath", []string{"endpoint", "node id", "data directory"}},
		{"plugin hostpath -capacity much", []string{"-capacity", "10GiB"}},
		{"plugin hostpath -log-level loud", []string{"-log-level", "debug"}},
	} {
		code, _, errs := runLine(t, c.line)
		if code != 2 {
			t.Errorf("%s: got exit code %d, want 2", c.line, code)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q lacks %q", c.line, errs, want)
			}
		}
	}
}
