package commands

import (
	"bytes"
	"strings"
	"testing"

	"berth/cli"
)

// berth runs a command line with all commands.
func berth(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = cli.Run(t.Context(), args, cli.Stdio{
		In:  strings.NewReader(""),
		Out: &o,
		Err: &e,
	}, All()...)
	return code, o.String(), e.String()
}

func TestCommands_HelpFitsOnATerminal(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"agent", "-h"}, {"plugin", "-h"}, {"plugin", "hostpath", "-h"}} {
		code, out, errs := berth(t, args...)
		if code != 0 ||
			errs != "" ||
			!strings.HasPrefix(out, "Usage: berth") {
			t.Errorf("%v: %d %q", args, code, errs)
		}
		for line := range strings.Lines(out) {
			if len(line) > 81 {
				t.Errorf("%v: a line of %d characters: %s", args, len(line)-1, line)
			}
		}
	}
}

func TestCommands_NameInvalidAndMissingOptions(t *testing.T) {
	t.Setenv("CSI_ENDPOINT", "")
	t.Setenv("BERTH_PLUGIN_DATA", "")
	for _, c := range []struct {
		args string
		want []string
	}{
		{"agent", []string{"-dev", "data_dir"}},
		{"agent -zap", []string{"no option -zap", `"berth agent -h"`}},
		{"agent -http-port many", []string{"-http-port", "whole number"}},
		{"plugin hostpath", []string{"endpoint", "node id", "data directory"}},
		{"plugin hostpath -capacity much", []string{"-capacity", "10GiB"}},
		{"plugin hostpath -log-level loud", []string{"-log-level", "debug"}},
	} {
		code, _, errs := berth(t, strings.Fields(c.args)...)
		if code != 2 {
			t.Errorf("%s: exit code %d", c.args, code)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q does not say %q", c.args, errs, want)
			}
		}
	}
}
