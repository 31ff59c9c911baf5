package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	_ "berth/api/nouns" // the routes
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/internal/doctor"
	"berth/rpc"
	"berth/structs/admin"
)

// runLine runs the command for a machine that is no node, with an edit of it.
func runLine(t *testing.T, socket string, edit func(*doctor.Machine), args ...string) (code int, out string) {
	t.Helper()
	cmd := Command(func([]string) (*doctor.Machine, string) {
		m := doctor.New()
		m.DataDir = t.TempDir()
		edit(m)
		return m, socket
	})
	root := command.Command{Name: "berth", Sub: []command.Command{cmd}}
	var o bytes.Buffer
	code = root.Main(t.Context(), append([]string{"doctor"}, args...), command.Stdio{
		In:  strings.NewReader(""),
		Out: &o,
		Err: &o,
	})
	return code, o.String()
}

func fail(m *doctor.Machine) { m.ConfigFault = errors.New("line 7\nis bad") }

func warn(m *doctor.Machine) {
	m.Ports = []doctor.Port{{Setting: "ports.http", Network: "tcp", Address: "0.0.0.0:0"}}
}

func TestDoctor_HasTheExitCodeOfTheWorstResult(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		edit func(*doctor.Machine)
		args []string
		code int
		want string
	}{
		{warn, nil, 0, "warn  certificates "},
		{warn, []string{"-strict"}, 1, "0 failures"},
		{fail, nil, 1, "1 failure,"},
		{fail, nil, 1, "fail  configuration  the configuration is not valid: line 7 is bad\n   "},
		{fail, []string{"-t", "{{.Failures}}"}, 1, "1"},
		{warn, []string{"-zap"}, 2, "no option -zap"},
	} {
		code, out := runLine(t, none, c.edit, c.args...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: got the exit code %d, want %d with %q: %s", c.args, code, c.code, c.want, out)
		}
	}
}

// TestDoctor_AsksTheAgentOnItsSocket has an agent whose node has a plugin.
func TestDoctor_AsksTheAgentOnItsSocket(t *testing.T) {
	w := clitest.NewCluster(t.TempDir())
	srv := httptest.NewUnstartedServer(api.NewHandler(api.Config{
		Caller: w.Caller,
		Agent:  w.Agent,
		Logger: hclog.NewNullLogger(),
	}))
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = srv.Listener.Close() // the one of TCP that is not used
	srv.Listener = ln
	srv.Start()
	defer srv.Close()

	for _, f := range checksOf(t, socket) {
		if (f.Check == "agent" || f.Check == "drivers" || f.Check == "plugins") && f.Result == doctor.Skip {
			t.Errorf("%s: skipped: %s", f.Check, f.Text)
		}
	}

	// The second server is unhealthy then.
	req := &admin.AutopilotConfigRequest{Config: admin.DefaultAutopilotConfig()}
	req.Config.MinQuorum = 3
	_, err = rpc.Call(t.Context(), w.Caller, admin.AutopilotConfigSet, req)
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "the settings of the server s2.global are not known: the leader has no contact with it"
	if !slices.ContainsFunc(checksOf(t, socket), func(f doctor.Finding) bool {
		return f.Result == doctor.Warn && f.Text == unknown
	}) {
		t.Errorf("no finding about the server without contact: %+v", checksOf(t, socket))
	}
}

// checksOf runs the command, and returns its findings.
func checksOf(t *testing.T, socket string) []doctor.Finding {
	t.Helper()
	_, out := runLine(t, socket, func(*doctor.Machine) {}, "-json")
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r.Checks
}
