package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/docker/dockertest"
	"berth/internal/process"
)

// user is a person at a terminal, at which the command line runs.
type user struct {
	t        testing.TB
	keys     *os.File // the person's side
	terminal *os.File
	shown    []byte // what was read and not awaited yet
	cmd      *exec.Cmd
}

// atTerminal runs berth alloc exec at a terminal with 40 rows and 120 columns.
func (a *agent) atTerminal(t testing.TB, args ...string) *user {
	t.Helper()
	return a.atTerminalAs(t, "", args...)
}

// atTerminalAs is atTerminal with the secret of a token.
func (a *agent) atTerminalAs(t testing.TB, secret string, args ...string) *user {
	t.Helper()
	keys, terminal, err := process.OpenTerminal(process.Multiplexer)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.ResizeTerminal(keys, 40, 120); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, append([]string{"alloc", "exec"}, args...)...)
	cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http), "BERTH_TOKEN="+secret)
	cmd.Stdin = terminal
	cmd.Stdout = terminal
	cmd.Stderr = terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = keys.Close()
		_ = terminal.Close()
	})
	return &user{t: t, keys: keys, terminal: terminal, cmd: cmd}
}

func (u *user) press(keys string) {
	u.t.Helper()
	if _, err := io.WriteString(u.keys, keys); err != nil {
		u.t.Fatal(err)
	}
}

// await reads the terminal up to a text.
func (u *user) await(want string) {
	u.t.Helper()
	if err := u.keys.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		u.t.Fatal(err)
	}
	for {
		_, after, found := bytes.Cut(u.shown, []byte(want))
		if found {
			u.shown = after
			return
		}
		buf := make([]byte, 1024)
		n, err := u.keys.Read(buf)
		if err != nil {
			u.t.Fatalf("the terminal shows %q, want %q: %v", u.shown, want, err)
		}
		u.shown = append(u.shown, buf[:n]...)
	}
}

// isRaw reports whether the terminal passes every key on.
func (u *user) isRaw() bool {
	u.t.Helper()
	mode, err := unix.IoctlGetTermios(int(u.terminal.Fd()), unix.TCGETS)
	if err != nil {
		u.t.Fatal(err)
	}
	return mode.Lflag&(unix.ICANON|unix.ECHO) == 0
}

// awaitEnd checks the exit code of the command line, which is one of codes, and the mode in which it leaves
// the terminal.
func (u *user) awaitEnd(codes ...int) {
	u.t.Helper()
	_ = u.cmd.Wait()
	if got := u.cmd.ProcessState.ExitCode(); !slices.Contains(codes, got) {
		u.t.Errorf("got exit code %d, want one of %d", got, codes)
	}
	if u.isRaw() {
		u.t.Error("the terminal is still raw")
	}
}

// commandsOf lists the shells that the test runs in a task. Their scripts end with a mark.
func commandsOf(mark string) (pids []int) {
	for _, pid := range processesOf("# " + mark) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.HasPrefix(cmdline, []byte("sh\x00-c\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func awaitNoCommand(t testing.TB, mark string) {
	t.Helper()
	eventually(t, "the command is gone", func() error {
		if left := commandsOf(mark); len(left) > 0 {
			return fmt.Errorf("processes %v", left)
		}
		return nil
	})
}

// hasAShell uses a shell in a task with the file /local/file.
func (a *agent) hasAShell(alloc string) {
	a.t.Helper()
	u := a.atTerminal(a.t, alloc, "sh")
	u.press("until stty size | grep -q '40 120'; do sleep 0.1; done; cat /local/file; tty\n")
	u.await("of the task\r\n/dev/pts/") // after a prompt, or after none
	if !u.isRaw() {
		a.t.Error("the terminal is not raw")
	}
	if err := process.ResizeTerminal(u.keys, 30, 90); err != nil {
		a.t.Fatal(err)
	}
	u.press("until stty size | grep -q '30 90'; do sleep 0.1; done; echo resized $((1 + 1))\n")
	u.await("resized 2")
	u.press("exit 42\n")
	u.awaitEnd(42)
}

// stubborn is a script that only SIGKILL ends. A mark is to follow.
const stubborn = "trap '' HUP TERM; echo up $((1 + 1)); while :; do sleep 0.1; done # "

// endsCommandsWithTheirUser runs commands that the user leaves, by the keys for that and by a kill.
func (a *agent) endsCommandsWithTheirUser(alloc string) {
	a.t.Helper()
	u := a.atTerminal(a.t, alloc, "sh", "-c", stubborn+a.dir)
	u.await("up 2")
	u.press("\r~.")
	u.awaitEnd(1)
	awaitNoCommand(a.t, a.dir)

	u = a.atTerminal(a.t, alloc, "sh", "-c", stubborn+a.dir)
	u.await("up 2")
	if err := u.cmd.Process.Kill(); err != nil {
		a.t.Fatal(err)
	}
	awaitNoCommand(a.t, a.dir)
}

// TestExec_AtATerminal runs commands through a server that is not the node's agent. It ends the user and the
// agent beside running commands. The task runs on.
func TestExec_AtATerminal(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, followers := c.leader()
	server := followers[0]
	server.must("job", "run", server.writeJob(jobFile{
		name:   "shell",
		script: "echo of the task > /local/file; echo up; exec sleep 100000",
	}))
	alloc := server.awaitRunning("shell", 1)[0].ID
	server.awaitOutput(alloc, "up")

	server.hasAShell(alloc)
	server.endsCommandsWithTheirUser(alloc)
	mark := server.dir
	u := server.atTerminal(t, alloc, "sh", "-c", stubborn+mark)
	u.await("up 2")
	c.node.kill()
	u.awaitEnd(7)
	awaitNoCommand(t, mark)
	c.node.start()
	eventually(t, "the task that is older than the agent runs commands", func() error {
		out, err := server.run("alloc", "exec", alloc, "cat", "/local/file")
		if err == nil && out != "of the task\n" {
			err = fmt.Errorf("the command writes %q", out)
		}
		return err
	})

	u = server.atTerminal(t, alloc, "sh", "-c", stubborn+mark)
	u.await("up 2")
	server.must("job", "stop", "shell")
	u.awaitEnd(5)
	awaitNoCommand(t, mark)
	server.mustFail(5, []string{"not running"}, "alloc", "exec", alloc, "true")
}

// runsScripts passes input to a script in a task, and checks both outputs and the exit code.
func (a *agent) runsScripts(alloc string) {
	a.t.Helper()
	text := strings.Repeat("0123456789abcdef", 1<<16)
	cmd := exec.Command(binary, "alloc", "exec", "-task", "t", alloc, "sh", "-c", "cat; echo beside >&2; exit 7")
	cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http))
	cmd.Stdin = strings.NewReader(text)
	var out, errs bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &errs
	err := cmd.Run()
	if exitCode(err) != 7 || out.String() != text || errs.String() != "beside\n" {
		a.t.Errorf("got %v, %d bytes of %d and %q", err, out.Len(), len(text), errs.String())
	}
}

// TestExec_WithoutATerminal is about scripts: input, both outputs and the exit code.
func TestExec_WithoutATerminal(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", a.writeJob(jobFile{name: "plain", script: "echo up; exec sleep 100000"}))
	alloc := a.awaitRunning("plain", 1)[0].ID
	a.awaitOutput(alloc, "up")
	a.runsScripts(alloc)
	a.mustFail(2, []string{`"no-such" not found in the task's root`}, "alloc", "exec", alloc, "no-such")
	a.mustFail(2, []string{`has no task "none"; expected one of: t`}, "alloc", "exec", "-task", "none", alloc, "true")
	a.must("job", "stop", "-purge", "plain")
}

// containerWithShell is a container that has the programs of the tests.
const containerWithShell = `
job "shell" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image        = "shell:1"
        command      = "sh"
        args         = ["-c", "echo of the task > /local/file; echo up; exec sleep 100000"]
        network_mode = "none"
      }
      kill_timeout = "1s"
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`

// TestExec_InAContainer runs commands in a container, also in one that is older than the agent.
func TestExec_InAContainer(t *testing.T) {
	t.Parallel()
	d := dockertest.Start(t)
	files := map[string]string{}
	for _, name := range []string{"sh", "sleep", "stty", "grep", "cat", "tty"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		files["/bin/"+name] = path
	}
	d.ImportFiles("shell:1", files, "ENV PATH=/bin")
	a := dockerAgent(t, d)
	a.must("job", "run", a.writeFile("shell.hcl", containerWithShell))
	alloc := a.awaitRunning("shell", 1)[0].ID
	a.awaitOutput(alloc, "up")
	a.hasAShell(alloc)
	a.runsScripts(alloc)
	_, err := a.run("alloc", "exec", alloc, "no-such")
	if code := exitCode(err); code != 126 && code != 127 || !strings.Contains(err.Error(), `"no-such"`) {
		t.Errorf("a program that is not there: exit code %d, %v", code, err)
	}
	a.endsCommandsWithTheirUser(alloc)

	a.kill()
	a.start()
	eventually(t, "the task that is older than the agent runs commands", func() error {
		out, err := a.run("alloc", "exec", alloc, "cat", "/local/file")
		if err == nil && out != "of the task\n" {
			err = fmt.Errorf("the command writes %q", out)
		}
		return err
	})
	a.hasAShell(alloc)

	u := a.atTerminal(t, alloc, "sh", "-c", stubborn+a.dir)
	u.await("up 2")
	a.must("job", "stop", "shell")
	u.awaitEnd(137, 5) // the daemon may still know how the command has ended, or not
	awaitNoCommand(t, a.dir)
	a.mustFail(5, []string{"not running"}, "alloc", "exec", alloc, "true")
}
