package alloc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/api"
	"berth/api/apitest"
	"berth/cli"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/internal/process"
	"berth/structs"
)

// execAlloc is the allocation in which the agent of serveExec runs commands.
const execAlloc = "53b92b20-0000-4000-8000-000000000001"

// serveExec serves the API of an agent that runs a function as each command.
func serveExec(t *testing.T, run api.ExecFunc) (addr string) {
	t.Helper()
	agent := clitest.NewAgent(t.TempDir())
	agent.Exec = func(allocID, task string) (api.ExecFunc, error) {
		if allocID != execAlloc || task != "" && task != "web" {
			return nil, structs.Invalidf("no task %q", task)
		}
		return run, nil
	}
	return clitest.Serve(t, &apitest.Caller{}, agent)
}

func TestAllocExec_RunsTheCommandAsItIs(t *testing.T) {
	var got []string
	addr := serveExec(t, func(_ context.Context, x *api.Exec) (int, error) {
		got = x.Command
		if x.TTY {
			return 0, errors.New("there is no terminal here")
		}
		text, _ := io.ReadAll(x.Stdin)
		_, _ = io.WriteString(x.Stdout, "out\x1b[31m"+string(text))
		_, _ = io.WriteString(x.Stderr, "err\x1b[31m")
		return 42, nil
	})
	for _, args := range [][]string{
		{"-address", addr, execAlloc, "ls", "-l", "-task", "x", "--", "-h"},
		{"-address", addr, "-task", "web", execAlloc, "ls", "-l", "-task", "x", "--", "-h"},
		{"-address=" + addr, "-i=false", "-e", "none", execAlloc, "--", "ls", "-l", "-task", "x", "--", "-h"},
	} {
		code, out, errs := clitest.Run(t, cli.Tree(), append([]string{"alloc", "exec"}, args...)...)
		if code != 42 || out != "out\x1b[31m" || errs != "err\x1b[31m" {
			t.Errorf("%q: got exit code %d, %q, %q", args, code, out, errs)
		}
		if want := "ls,-l,-task,x,--,-h"; strings.Join(got, ",") != want {
			t.Errorf("the command is %q, want %s", got, want)
		}
	}
}

func TestAllocExec_Errors(t *testing.T) {
	addr := serveExec(t, func(context.Context, *api.Exec) (int, error) {
		return 0, structs.Conflictf("the task has ended")
	})
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{execAlloc + " ls", 5, "Error: the task has ended\n"},
		{"-task db " + execAlloc + " ls", 2, "Error: no task \"db\"\n"},
		{"-e ab " + execAlloc + " ls", 2, "expected one ASCII character"},
		{"-e . " + execAlloc + " ls", 2, "expected one ASCII character"},
		{execAlloc, 2, "<command> is missing"},
	} {
		code, _, errs := clitest.Run(t, cli.Tree(), strings.Fields("alloc exec -address "+addr+" "+c.line)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: got exit code %d: %q", c.line, code, errs)
		}
	}
}

// userAt runs the command line at a terminal.
type userAt struct {
	t        *testing.T
	keys     *os.File // the user's side
	terminal *os.File
	before   unix.Termios // the mode of the terminal before the command
	shown    []byte       // what was read and not awaited yet
	ended    chan int
}

func atTerminal(t *testing.T, args ...string) *userAt {
	t.Helper()
	keys, terminal, err := process.OpenTerminal(process.Multiplexer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = keys.Close() // ends the read of the terminal
		_ = terminal.Close()
	})
	if err := process.ResizeTerminal(keys, 24, 80); err != nil {
		t.Fatal(err)
	}
	u := &userAt{t: t, keys: keys, terminal: terminal, ended: make(chan int, 1)}
	u.before = u.mode()
	go func() {
		u.ended <- cli.Run(t.Context(), append([]string{"alloc", "exec"}, args...), command.Stdio{
			In:  terminal,
			Out: terminal,
			Err: terminal,
		})
	}()
	return u
}

// mode is the mode of the terminal.
func (u *userAt) mode() unix.Termios {
	u.t.Helper()
	mode, err := unix.IoctlGetTermios(int(u.terminal.Fd()), unix.TCGETS)
	if err != nil {
		u.t.Fatal(err)
	}
	return *mode
}

// await reads what the terminal shows, up to a text.
func (u *userAt) await(want string) {
	u.t.Helper()
	if err := u.keys.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		u.t.Fatal(err)
	}
	for {
		_, after, found := bytes.Cut(u.shown, []byte(want))
		if found {
			u.shown = after
			return
		}
		buf := make([]byte, 256)
		n, err := u.keys.Read(buf)
		if err != nil {
			u.t.Fatalf("the terminal shows %q, want %q: %v", u.shown, want, err)
		}
		u.shown = append(u.shown, buf[:n]...)
	}
}

func (u *userAt) press(keys string) {
	u.t.Helper()
	if _, err := io.WriteString(u.keys, keys); err != nil {
		u.t.Fatal(err)
	}
}

// show is a command that shows the sizes of its terminal and its input, until a q.
func show(ctx context.Context, x *api.Exec) (int, error) {
	if !x.TTY {
		return 0, errors.New("the command has no terminal")
	}
	keys := make(chan byte)
	go func() {
		defer close(keys)
		for buf := make([]byte, 1); ; {
			if _, err := x.Stdin.Read(buf); err != nil {
				return
			}
			select {
			case keys <- buf[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		text := ""
		select {
		case size := <-x.Resize:
			text = strings.Repeat("|", size.Width/10) + strings.Repeat("-", size.Height/10)
		case key, more := <-keys:
			if !more || key == 'q' {
				return 9, nil
			}
			text = "<" + string(key) + ">"
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if _, err := io.WriteString(x.Stdout, text+"\r\n"); err != nil {
			return 0, err
		}
	}
}

func TestAllocExec_PassesTheTerminalOn(t *testing.T) {
	addr := serveExec(t, show)
	u := atTerminal(t, "-address", addr, execAlloc, "sh")
	u.await("||||||||--")
	u.press("a\x03~b")
	for _, want := range []string{"<a>", "<\x03>", "<~>", "<b>"} {
		u.await(want)
	}
	if u.mode() == u.before {
		t.Error("the terminal is not raw")
	}
	if err := process.ResizeTerminal(u.keys, 50, 30); err != nil {
		t.Fatal(err)
	}
	// A terminal signals its size to its own processes; this one has none.
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	u.await("|||-----")
	u.press("q")
	if code := <-u.ended; code != 9 {
		t.Errorf("got exit code %d, want that of the command", code)
	}
	if u.mode() != u.before {
		t.Error("the mode of the terminal is not restored")
	}
}

func TestAllocExec_RestoresTheTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		run  api.ExecFunc
		keys string
		code int
		want string
	}{
		"after an escape": {show, "\r~.", 1, "ended by the escape character"},
		"after an error": {func(context.Context, *api.Exec) (int, error) {
			return 0, structs.Conflictf("the task has ended")
		}, "", 5, "the task has ended"},
	} {
		addr := serveExec(t, c.run)
		u := atTerminal(t, "-address", addr, "-t", execAlloc, "sh")
		u.press(c.keys)
		u.await(c.want)
		if code := <-u.ended; code != c.code {
			t.Errorf("%s: got exit code %d, want %d", name, code, c.code)
		}
		if u.mode() != u.before {
			t.Errorf("%s: the mode of the terminal is not restored", name)
		}
	}
}

// TestAllocExec_SaysWhatItWaitsFor checks the line about a node that is slow to take the command. The
// terminal is raw, so the line needs a carriage return.
func TestAllocExec_SaysWhatItWaitsFor(t *testing.T) {
	const want = "waits for the answer of the node of allocation a1a1a1a1\r\n"
	said := make(chan struct{})
	isExec := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/client/allocation/") }
	addr := clitest.ServeSlowly(t, isExec, func(w http.ResponseWriter, r *http.Request, h http.Handler) {
		select {
		case <-said:
		case <-t.Context().Done():
		}
		h.ServeHTTP(w, r)
	})
	u := atTerminal(t, "-address", addr, "a1a1a1a1", "ls")
	u.await(want)
	close(said)
	if code := <-u.ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
