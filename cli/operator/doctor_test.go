package operator

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
	"berth/api/areas"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/internal/doctor"
	"berth/rpc"
	"berth/structs/cluster"
)

// runDoctorLine runs the command for a machine that is no node, with an edit of it.
func runDoctorLine(
	t *testing.T, socket string, edit func(*doctor.Machine), args ...string,
) (code int, out string) {
	t.Helper()
	cmd := DoctorCommand(func([]string) (*doctor.Machine, string) {
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

func failMachine(m *doctor.Machine) { m.ConfigFault = errors.New("line 7\nis bad") }

func warnMachine(m *doctor.Machine) {
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
		{warnMachine, nil, 0, "warn  certificates "},
		{warnMachine, []string{"-strict"}, 1, "0 failures"},
		{failMachine, nil, 1, "1 failure,"},
		{failMachine, nil, 1, "fail  configuration  the configuration is not valid: line 7 is bad\n   "},
		{failMachine, []string{"-t", "{{.Failures}}"}, 1, "1"},
		{warnMachine, []string{"-zap"}, 2, "no option -zap"},
	} {
		code, out := runDoctorLine(t, none, c.edit, c.args...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: got the exit code %d, want %d with %q: %s", c.args, code, c.code, c.want, out)
		}
	}
}

// TestDoctor_AsksTheAgentOnItsSocket has an agent whose node has a plugin.
func TestDoctor_AsksTheAgentOnItsSocket(t *testing.T) {
	w := clitest.NewCluster(t.TempDir())
	srv := httptest.NewUnstartedServer(api.NewHandler(api.Config{
		Routes: areas.Routes(),
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

	for _, f := range doctorChecks(t, socket) {
		if (f.Check == "agent" || f.Check == "drivers" || f.Check == "plugins") && f.Result == doctor.Skip {
			t.Errorf("%s: skipped: %s", f.Check, f.Text)
		}
	}

	// The second server is unhealthy then.
	req := &cluster.AutopilotConfigRequest{Config: cluster.DefaultAutopilotConfig()}
	req.Config.MinQuorum = 3
	_, err = rpc.Call(t.Context(), w.Caller, cluster.AutopilotConfigSet, req)
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "the settings of the server s2.global are not known: the leader has no contact with it"
	if !slices.ContainsFunc(doctorChecks(t, socket), func(f doctor.Finding) bool {
		return f.Result == doctor.Warn && f.Text == unknown
	}) {
		t.Errorf("no finding about the server without contact: %+v", doctorChecks(t, socket))
	}
}

// doctorChecks runs the command, and returns its findings.
func doctorChecks(t *testing.T, socket string) []doctor.Finding {
	t.Helper()
	_, out := runDoctorLine(t, socket, func(*doctor.Machine) {}, "-json")
	var r doctorReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r.Checks
}
