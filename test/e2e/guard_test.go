package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The guard is a process beside the tests: the test binary, if its first argument is "guard". It knows the
// directories of the tests. If the tests end without having emptied one, by a panic, a signal or a timeout,
// the guard ends what is left of it. Each process that the tests start has the name of the run in its
// environment, if it does not drop it.

// runVar is the environment variable with the name of the run.
const runVar = "BERTH_E2E_RUN"

// guard is the tests' side of the guard.
type guard struct {
	mu   sync.Mutex
	pipe io.WriteCloser // the guard's standard input: a line for each directory that begins or ends
	cmd  *exec.Cmd
}

// guarded is the guard of this process.
var guarded guard

// start starts the process, and names the run.
func (g *guard) start() error {
	run := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	if err := os.Setenv(runVar, run); err != nil {
		return err
	}
	g.cmd = exec.Command(os.Args[0], "guard", run)
	g.cmd.Stdout = os.Stderr
	g.cmd.Stderr = os.Stderr // go test waits until the guard has closed it
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := g.cmd.StdinPipe()
	if err != nil {
		return err
	}
	g.pipe = pipe
	return g.cmd.Start()
}

// stop ends the guard, after all that is left.
func (g *guard) stop() error {
	_ = g.pipe.Close()
	return g.cmd.Wait()
}

// watch has the guard end what is left of a directory, unless the test does so before its end.
func (g *guard) watch(t testing.TB, dir string) {
	t.Helper()
	g.tell(t, "+"+dir)
	t.Cleanup(func() { g.tell(t, "-"+dir) })
}

func (g *guard) tell(t testing.TB, line string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := fmt.Fprintln(g.pipe, line); err != nil {
		t.Errorf("the guard does not learn %q: %v", line, err)
	}
}

// runGuard waits for the end of the tests, and ends what they have left.
func runGuard(run string) int {
	// SIGPIPE: the reader of what the guard writes may have ended with the tests.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	var dirs []string
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		what := lines.Text()[:1]
		dir := lines.Text()[1:]
		if what == "+" {
			dirs = append(dirs, dir)
			continue
		}
		dirs = slices.DeleteFunc(dirs, func(d string) bool { return d == dir })
	}
	err := retry(func() error { return endRun(run) })
	code := report(err)
	for _, dir := range slices.Backward(dirs) {
		l := newLeftovers(dir)
		_, _ = fmt.Fprintf(os.Stderr, "e2e: the tests ended without emptying %s\n", dir)
		code = max(code, report(l.end()))
	}
	return code
}

// endRun kills the processes of a run.
func endRun(run string) error {
	all, _ := processTable()
	left := slices.DeleteFunc(all, func(pid int) bool {
		return !names(pid, "environ", runVar+"="+run)
	})
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if len(left) > 0 {
		return fmt.Errorf("processes %v do not end", left)
	}
	return nil
}

func report(err error) (code int) {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}
