package interop

import (
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// terminal is a tool in a terminal of its own.
type terminal struct {
	*screen
	t    *testing.T
	cmd  *exec.Cmd
	keys io.WriteCloser
}

// openTerminal starts the tool in a terminal until the end of the test.
func (a toolAgent) openTerminal(args string) terminal {
	a.t.Helper()
	out := &screen{changed: make(chan struct{}, 1)}
	cmd := exec.CommandContext(a.t.Context(), "script", "-qefc",
		"stty rows 40 cols 160; exec "+a.path+" "+args, "/dev/null")
	cmd.Env = append(a.command().Env, "TERM=xterm-256color")
	cmd.Dir = a.dir
	cmd.Stdout = out
	keys, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = keys.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return terminal{out, a.t, cmd, keys}
}

// press sends a key.
func (m terminal) press(key string) {
	m.t.Helper()
	_, err := io.WriteString(m.keys, key)
	checkNoError(m.t, "pressing a key", err)
}

// quit ends the tool by its key.
func (m terminal) quit() {
	m.t.Helper()
	m.press("\x03")
	timer := time.AfterFunc(patience, func() { _ = m.cmd.Process.Kill() })
	defer timer.Stop()
	err := m.cmd.Wait()
	if err != nil {
		m.t.Errorf("the tool ends with %v", err)
	}
}

// TestTool_WanderShowsAJobAndItsLogs opens the terminal user interface on its list of jobs, and goes by the
// keys of its users to the allocation and the log of the task.
func TestTool_WanderShowsAJobAndItsLogs(t *testing.T) {
	a := startToolAgent(t, "wander")
	runJob(t, a.client, shellJob("sleeper", "echo words of the task; exec sleep 600"))
	wander := a.openTerminal("--update 1")
	wander.await(t, "sleeper")
	wander.press("\r")
	wander.await(t, "app")
	wander.press("\r")
	wander.await(t, "words of the task")
	wander.quit()
}

// TestTool_WanderFollowsEvents opens the events of a job and stops the job.
func TestTool_WanderFollowsEvents(t *testing.T) {
	a := startToolAgent(t, "wander")
	runJob(t, a.client, shellJob("sleeper", "exec sleep 600"))
	wander := a.openTerminal("--update 1")
	wander.await(t, "sleeper")
	wander.press("v")
	wander.await(t, "JobRegistered")
	stopJob(t, a.client, "sleeper")
	wander.await(t, "JobDeregistered")
	wander.quit()
}
