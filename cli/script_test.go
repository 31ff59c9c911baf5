package cli

import (
	"context"
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"berth/api"
	_ "berth/api/nouns" // the routes
	"berth/cli/clitest"
	"berth/cli/command"
)

var update = flag.Bool("update", false, "write the output of the commands into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"berth": berth})
}

// leakChecked runs the tests and then fails if goroutines are left.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return code
}

// berth is the command line of the scripts, at a fixed time.
func berth() {
	command.Now = func() time.Time { return clitest.Today }
	time.Local = time.UTC
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := Run(ctx, os.Args[1:], command.Stdio{
		In:  os.Stdin,
		Out: os.Stdout,
		Err: os.Stderr,
	})
	stop()
	os.Exit(code)
}

// TestCLI_Scripts runs the command line in a separate process against the HTTP API of the fake cluster of
// clitest. It compares the output with the scripts. -update writes the output into them.
func TestCLI_Scripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"asked": asked},
		Setup: func(e *testscript.Env) error {
			w := clitest.NewCluster(e.WorkDir)
			srv := httptest.NewServer(api.NewHandler(api.Config{
				Caller: w.Caller,
				Agent:  w.Agent,
				Logger: hclog.NewNullLogger(),
			}))
			e.Defer(srv.Close)
			e.Values[clusterKey{}] = w
			e.Setenv("BERTH_ADDR", srv.URL)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second longer under -race
			return errors.Join(
				os.WriteFile(e.Cd+"/good.snap", w.Agent.Snapshot, 0o600),
				os.WriteFile(e.Cd+"/sound.snap", clitest.StateArchive(clitest.ValidState()), 0o600),
				os.WriteFile(e.Cd+"/broken.snap", clitest.StateArchive(clitest.BrokenState()), 0o600),
			)
		},
	})
}

// clusterKey is the key under which a script has its fake cluster.
type clusterKey struct{}

// asked waits until a command in the background has requested the deletion of a volume.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: asked volume")
	}
	select {
	case id := <-ts.Value(clusterKey{}).(*clitest.Cluster).Slow:
		if id != args[0] {
			ts.Fatalf("got a request to delete %s, want %s", id, args[0])
		}
	case <-time.After(2 * time.Minute):
		ts.Fatalf("no request to delete %s", args[0])
	}
}
