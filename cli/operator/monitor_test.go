package operator_test

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/cli/operator"
	"berth/internal/agentlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var monitorTree = []command.Command{operator.MonitorCommand}

// writeUntil ends a command when its output has a text.
type writeUntil struct {
	all  bytes.Buffer // no embedded one, whose other methods would pass Write by
	text string
	end  func()
}

func (u *writeUntil) Write(p []byte) (int, error) {
	n, err := u.all.Write(p)
	if strings.Contains(u.all.String(), u.text) {
		u.end()
	}
	return n, err
}

// talkingAgent logs a line as soon as it is followed.
type talkingAgent struct{ *apitest.Agent }

func (a talkingAgent) Tap(o agentlog.TapOptions) (*agentlog.Tap, error) {
	tap, err := a.Agent.Tap(o)
	a.Logger.Debug("a line \x1b[31m of a task")
	return tap, err
}

func TestMonitor_FollowsTheLogUntilInterrupted(t *testing.T) {
	agent := &apitest.Agent{Logger: hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard})}
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: &apitest.Caller{},
		Agent:  talkingAgent{agent},
		Logger: hclog.NewNullLogger(),
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &writeUntil{text: "of a task", end: cancel}
	var errs bytes.Buffer
	root := &command.Command{Name: "berth", Sub: monitorTree}
	code := root.Main(ctx, []string{"monitor", "-address", srv.URL, "-log-level", "debug"},
		command.Stdio{Out: out, Err: &errs})
	if code != 0 || !strings.Contains(out.all.String(), "[DEBUG]") || strings.Contains(out.all.String(), "\x1b") {
		t.Errorf("got %d %.200q %q, want lines without control characters", code, out.all.String(), errs.String())
	}
}

func TestMonitor_ExportsTheLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.log")
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := clitest.Serve(t, &apitest.Caller{}, &apitest.Agent{OwnLogs: []string{path}})
	code, out, errs := clitest.Run(t, monitorTree, "monitor", "export", "-address", addr)
	if code != 0 || out != "one\ntwo\n" {
		t.Errorf("got %d %q %q", code, out, errs)
	}
}
