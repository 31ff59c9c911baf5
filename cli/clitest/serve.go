package clitest

import (
	"bytes"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/cli/command"
)

// Serve serves the HTTP API of an agent before fake servers.
func Serve(t *testing.T, caller *apitest.Caller, agent *apitest.Agent) (addr string) {
	t.Helper()
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: caller,
		Agent:  agent,
		Logger: hclog.NewNullLogger(),
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// CheckLines checks that an output has lines in an order, each once.
func CheckLines(t *testing.T, out string, want ...string) {
	t.Helper()
	rest := out
	for _, line := range want {
		_, after, found := strings.Cut(rest, line)
		if !found || strings.Count(out, line) != 1 {
			t.Fatalf("%q is missing, not in its place or not alone in\n%s", line, out)
		}
		rest = after
	}
}

// WriteFile writes a file.
func WriteFile(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Run runs the command line of some arguments in this process, with the commands of a tree.
func Run(t *testing.T, tree []command.Command, args ...string) (code int, out, errs string) {
	t.Helper()
	return RunTyped(t, tree, "", args...)
}

// RunTyped is Run with a standard input.
func RunTyped(
	t *testing.T, tree []command.Command, typed string, args ...string,
) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	root := command.Command{Name: "berth", Sub: tree}
	code = root.Main(t.Context(), args, command.Stdio{
		In:  strings.NewReader(typed),
		Out: &o,
		Err: &e,
	})
	return code, o.String(), e.String()
}
