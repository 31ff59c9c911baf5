package cli

import (
	"context"
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"berth/api"
	"berth/api/areas"
	"berth/api/show"
	"berth/cli/clitest"
	"berth/cli/command"
)

var update = flag.Bool("update", false, "write the output of the commands into the scripts")

// At a fixed time, the output of the commands is the same on each day.
func TestMain(m *testing.M) {
	show.Now = func() time.Time { return clitest.Today }
	time.Local = time.UTC
	if filepath.Base(os.Args[0]) == "berth" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		code := Run(ctx, os.Args[1:], command.Stdio{
			In:  os.Stdin,
			Out: os.Stdout,
			Err: os.Stderr,
		})
		stop()
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// TestCLI_Scripts runs the command line against the HTTP API of the fake cluster of clitest. It compares the
// output with the scripts. -update writes the output into them.
//
// The line "berth ..." of a script runs in this process: with the race detector, the start of a process takes
// ten times as long as a command. The line "exec berth ..." starts one. Only that one has an input, runs in
// the background or sees the variables of the script.
func TestCLI_Scripts(t *testing.T) {
	scripts, err := filepath.Abs("testdata/script") // the commands change the directory
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	err = os.Symlink(self, filepath.Join(programs, "berth"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(".") // it restores the directory
	dropVariables(t)
	t.Setenv("BERTH_ADDR", "")
	testscript.Run(t, testscript.Params{
		Dir:           scripts,
		UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"asked": asked,
			"berth": berth,
		},
		Setup: func(e *testscript.Env) error {
			w := clitest.NewCluster(e.WorkDir)
			srv := httptest.NewServer(api.NewHandler(api.Config{
				Routes: areas.Routes(),
				Caller: w.Caller,
				Agent:  w.Agent,
				Logger: hclog.NewNullLogger(),
			}))
			e.Defer(srv.Close)
			e.Values[clusterKey{}] = w
			e.Setenv("BERTH_ADDR", srv.URL)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each process takes a second longer under -race
			e.Setenv("PATH", programs+":"+e.Getenv("PATH"))
			return errors.Join(
				os.WriteFile(e.Cd+"/good.snap", w.Agent.Snapshot, 0o600),
				os.WriteFile(e.Cd+"/sound.snap", clitest.StateArchive(clitest.ValidState()), 0o600),
				os.WriteFile(e.Cd+"/broken.snap", clitest.StateArchive(clitest.BrokenState()), 0o600),
			)
		},
	})
}

// dropVariables removes the variables of the environment for the rest of the test: a script has none of them.
func dropVariables(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "PATH" || name == "TMPDIR" {
			continue
		}
		t.Setenv(name, "") // it restores the value
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

// oneCommand serialises the commands of this process: they share its directory and its environment.
var oneCommand sync.Mutex

// berth runs a command in this process, in the directory of the script and against its cluster.
func berth(ts *testscript.TestScript, neg bool, args []string) {
	oneCommand.Lock()
	defer oneCommand.Unlock()
	ts.Check(os.Setenv("BERTH_ADDR", ts.Getenv("BERTH_ADDR")))
	ts.Check(os.Chdir(ts.MkAbs(".")))
	code := Run(context.Background(), args, command.Stdio{
		In:  strings.NewReader(""),
		Out: ts.Stdout(),
		Err: ts.Stderr(),
	})
	switch {
	case neg && code == 0:
		ts.Fatalf("unexpected command success")
	case !neg && code != 0:
		ts.Fatalf("unexpected command failure: exit code %d", code)
	}
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
