package exec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/client/drivers/driver"
	"berth/structs"
)

// command runs a shell script in a task, and returns its end and its output.
func (r *fixture) command(id, script string) (driver.ExitResult, string, error) {
	r.t.Helper()
	var out, errs bytes.Buffer
	result, err := r.Exec(r.ctx(), id, &driver.ExecConfig{
		Command: []string{"sh", "-c", script},
		Stdout:  &out,
		Stderr:  &errs,
	})
	if err != nil {
		return driver.ExitResult{}, "", err
	}
	return *result, out.String() + errs.String(), nil
}

// sleeping starts a task that runs until it is stopped, and writes a few facts about itself first.
func (r *fixture) sleeping(edit func(*driver.TaskConfig)) *driver.TaskConfig {
	r.t.Helper()
	cfg := r.task("t", ownFacts+`; exec sleep 1000`)
	cfg.Env = map[string]string{"GREETING": "hello"}
	cfg.User = "nobody"
	if edit != nil {
		edit(cfg)
	}
	r.start(cfg)
	r.awaitOutput(cfg, "Seccomp")
	return cfg
}

// ownFacts prints what a command must have in common with its task.
const ownFacts = `for n in mnt pid ipc uts net; do readlink /proc/self/ns/$n; done; id; pwd; ulimit -n
	env | grep -v ^_= | sort; cat /proc/self/cgroup; ls -di /; grep -E 'Cap|NoNewPrivs|Seccomp' /proc/self/status`

func TestExec_HasTheRightsOfTheTask(t *testing.T) {
	for name, edit := range map[string]func(*driver.TaskConfig){
		"a user":     nil,
		"root":       func(cfg *driver.TaskConfig) { cfg.User = "" },
		"privileged": func(cfg *driver.TaskConfig) { cfg.User, cfg.Privileged = "", true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			cfg := r.sleeping(edit)
			result, out, err := r.command(cfg.ID, ownFacts)
			if err != nil || !result.Successful() {
				t.Fatalf("got %+v, %v", result, err)
			}
			if want := r.readLog(cfg, "stdout"); out != want {
				t.Errorf("the command has\n%s\nthe task\n%s", out, want)
			}
		})
	}
}

func TestExec_ReportsTheEndOfTheCommand(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	for script, want := range map[string]driver.ExitResult{
		"exit 0":                       {},
		"exit 7":                       {ExitCode: 7},
		"kill -KILL $$":                {Signal: 9},
		"sleep 1000 & exit 3":          {ExitCode: 3}, // the rest of its output has no end
		"setsid sleep 1000 & exit 4":   {ExitCode: 4},
		"yes | head -c 300000; exit 5": {ExitCode: 5},
	} {
		got, out, err := r.command(cfg.ID, script)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", script, got, err)
		}
		if size := len(out); strings.Contains(script, "yes") && size != 300000 {
			t.Errorf("got %d bytes of the output", size)
		}
	}
	if _, out, err := r.command(cfg.ID, "echo out; echo err >&2; exit 1"); err != nil || out != "out\nerr\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestExec_PassesTheInputOn(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var out bytes.Buffer
	result, err := r.Exec(r.ctx(), cfg.ID, &driver.ExecConfig{
		Command: []string{"cat"},
		Stdin:   bytes.NewReader(text),
		Stdout:  &out,
		Stderr:  &out,
	})
	if err != nil || !result.Successful() || !bytes.Equal(out.Bytes(), text) {
		t.Errorf("got %+v, %v and %d bytes of %d", result, err, out.Len(), len(text))
	}
	stdin, feed := io.Pipe() // a user that types nothing
	defer feed.Close()
	result, err = r.Exec(r.ctx(), cfg.ID, &driver.ExecConfig{
		Command: []string{"true"},
		Stdin:   stdin,
		Stdout:  &out,
		Stderr:  &out,
	})
	if err != nil || !result.Successful() {
		t.Errorf("a command that reads nothing: %+v, %v", result, err)
	}
	if _, err := feed.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the input is not closed: %v", err)
	}
}

// terminal is a command with a terminal.
type terminal struct {
	t     *testing.T
	feed  *io.PipeWriter
	out   *syncBuffer
	sizes chan driver.TerminalSize
	ended chan error
	exit  driver.ExitResult
}

func (r *fixture) terminal(ctx context.Context, id string, command ...string) *terminal {
	r.t.Helper()
	stdin, feed := io.Pipe()
	u := &terminal{
		t:     r.t,
		feed:  feed,
		out:   &syncBuffer{changed: make(chan struct{}, 1)},
		sizes: make(chan driver.TerminalSize),
		ended: make(chan error, 1),
	}
	go func() {
		result, err := r.Exec(ctx, id, &driver.ExecConfig{
			Command: command,
			TTY:     true,
			Stdin:   stdin,
			Stdout:  u.out,
			Resize:  u.sizes,
		})
		if err == nil {
			u.exit = *result
		}
		u.ended <- err
	}()
	return u
}

// enter types a line, and waits until the output has a text.
func (u *terminal) enter(line, want string) {
	u.t.Helper()
	if _, err := io.WriteString(u.feed, line+"\n"); err != nil {
		u.t.Fatal(err)
	}
	u.out.await(u.t, want)
}

func TestExec_GivesATerminal(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	u := r.terminal(r.ctx(), cfg.ID, "sh")
	u.sizes <- driver.TerminalSize{Height: 33, Width: 77}
	u.enter(`until stty size | grep -q '33 77'; do sleep 0.05; done; echo $TERM $(tty)`, "xterm /dev/pts/")
	u.enter(`echo mine > $(tty)`, "mine\r\n")
	u.enter(`test -t 0 && test -t 1 && test -t 2 && echo "all three"`, "all three\r\n")
	u.sizes <- driver.TerminalSize{Height: 10, Width: 1 << 20}
	u.enter(`until stty size | grep -q '10 65535'; do sleep 0.05; done; echo "now"`, "now\r\n")
	// The keys are for tr, once it has answered: a shell that starts a program keeps a signal to itself.
	u.enter(`tr a-z A-Z; echo "after $?"`, "tr a-z")
	u.enter("hello", "HELLO\r\n")
	u.enter("\x03", "^C")
	u.enter(`tr a-z A-Z; echo "no more"`, "tr a-z")
	u.enter("there", "THERE\r\n")
	u.enter("\x04", "no more\r\n")
	if _, err := io.WriteString(u.feed, "exit 3\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-u.ended; err != nil || u.exit.ExitCode != 3 {
		t.Errorf("got %+v, %v", u.exit, err)
	}
}

// The end of the input ends a shell that reads from a terminal.
func TestExec_EndsTheInputOfATerminal(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	u := r.terminal(r.ctx(), cfg.ID, "sh", "-c", "cat; exit 6")
	u.enter("hello", "hello\r\nhello\r\n")
	u.feed.Close()
	if err := <-u.ended; err != nil || u.exit.ExitCode != 6 {
		t.Errorf("got %+v, %v", u.exit, err)
	}
}

// processes is the number of processes of a task.
func (r *fixture) processes(cfg *driver.TaskConfig) uint64 {
	r.t.Helper()
	s, err := r.Stats(r.ctx(), cfg.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.PIDs
}

func TestExec_TheEndOfItsContextKillsTheCommand(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	for _, script := range []string{
		`trap '' HUP TERM; echo up; sleep 1000`,
		`echo up; sleep 1000 | sleep 1000`,
	} {
		ctx, cancel := context.WithCancel(r.ctx())
		u := r.terminal(ctx, cfg.ID, "sh", "-c", script)
		u.out.await(t, "up")
		cancel()
		if err := <-u.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", script, err)
		}
		r.waitUntil("the command is gone", func() bool { return r.processes(cfg) == 1 })
	}
}

// failingWriter is a user that has gone.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestExec_AFailedWriterKillsTheCommand(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	_, err := r.Exec(r.ctx(), cfg.ID, &driver.ExecConfig{
		Command: []string{"sh", "-c", "echo up; sleep 1000"},
		Stdout:  failingWriter{},
		Stderr:  failingWriter{},
	})
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
	r.waitUntil("the command is gone", func() bool { return r.processes(cfg) == 1 })
}

func TestExec_EndsWithTheTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	u := r.terminal(r.ctx(), cfg.ID, "sh", "-c", "trap '' HUP TERM; echo up; sleep 1000")
	u.out.await(t, "up")
	if err := r.Stop(r.ctx(), cfg.ID, "SIGKILL", 0); err != nil {
		t.Fatal(err)
	}
	if err := <-u.ended; !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("the session of a task that has ended: %v", err)
	}
	if _, _, err := r.command(cfg.ID, "true"); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("a command in a task that has ended: %v", err)
	}
}

func TestExec_Failures(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	for name, c := range map[string]struct {
		id      string
		command []string
		want    structs.Kind
		text    string
	}{
		"no task":     {"alloc/none", []string{"true"}, structs.KindNotFound, "none"},
		"no command":  {cfg.ID, nil, structs.KindInvalid, "empty"},
		"no program":  {cfg.ID, []string{"no-such"}, structs.KindInvalid, `"no-such" not found in the task's root`},
		"a directory": {cfg.ID, []string{"/etc"}, structs.KindInvalid, "not an executable"},
		"the host's":  {cfg.ID, []string{os.Args[0]}, structs.KindInvalid, "not found"},
		"too long": {
			cfg.ID, []string{"echo", strings.Repeat("x", structs.MaxExecBytes)}, structs.KindInvalid, "bytes",
		},
	} {
		for _, tty := range []bool{false, true} {
			_, err := r.Exec(r.ctx(), c.id, &driver.ExecConfig{
				Command: c.command,
				TTY:     tty,
				Stdout:  io.Discard,
				Stderr:  io.Discard,
			})
			if !structs.IsKind(err, c.want) || !contains(err.Error(), c.text) {
				t.Errorf("%s, tty %t: got %v", name, tty, err)
			}
		}
	}
	r.waitUntil("no command is left", func() bool { return r.processes(cfg) == 1 })
}

func TestExec_ManyAtOnce(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(nil)
	var all errgroup.Group
	for i := range 24 {
		all.Go(func() error {
			var out bytes.Buffer
			result, err := r.Exec(r.ctx(), cfg.ID, &driver.ExecConfig{
				Command: []string{"sh", "-c", fmt.Sprintf("echo %d; exit %d", i, i)},
				TTY:     i%2 == 0,
				Stdout:  &out,
				Stderr:  &out,
			})
			if err != nil || result.ExitCode != i || strings.TrimSpace(out.String()) != fmt.Sprint(i) {
				return fmt.Errorf("command %d: %+v, %v: %q", i, result, err, out.String())
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}

// An agent was killed. The next one runs commands in its tasks.
func TestExec_InATaskOfAnEarlierAgent(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo Seccomp; exec sleep 1000`)
	agent, h := r.startInAgent(cfg)
	r.awaitOutput(cfg, "Seccomp")
	r.killAgent(agent)
	next := r.nextAgent()
	if err := next.Recover(r.ctx(), h); err != nil {
		t.Fatal(err)
	}
	result, out, err := next.command(cfg.ID, "echo found")
	if err != nil || !result.Successful() || out != "found\n" {
		t.Fatalf("got %+v, %v: %q", result, err, out)
	}
}

// A process that the task has started cannot reach the socket, nor pid 1 that serves it.
func TestExec_IsNotForTheTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.sleeping(func(cfg *driver.TaskConfig) { cfg.User = "" })
	_, out, err := r.command(cfg.ID,
		`for f in /proc/1/fd/*; do readlink $f; done; ls `+r.DirOf(cfg.ID)+` 2>&1 | grep -c 'No such'`)
	if err != nil || out != "1\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// syncBuffer keeps output for a test that waits for it.
type syncBuffer struct {
	lock    sync.Mutex
	text    []byte
	changed chan struct{}
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.text = append(b.text, p...)
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

// await waits for a text, and forgets all output up to the end of it.
func (b *syncBuffer) await(t *testing.T, want string) {
	t.Helper()
	limit := time.After(patience)
	for {
		b.lock.Lock()
		before, after, found := bytes.Cut(b.text, []byte(want))
		if found {
			b.text = after
		}
		b.lock.Unlock()
		if found {
			return
		}
		select {
		case <-b.changed:
		case <-limit:
			t.Fatalf("the output lacks %q: %q", want, before)
		}
	}
}
