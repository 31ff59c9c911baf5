package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/driver"
	"berth/structs"
	"berth/test/kit"
)

// fakeCommand scripts the calls of a daemon about one command.
type fakeCommand struct {
	// talk is the command: it has the connection after the handshake.
	talk func(conn net.Conn, stdin io.Reader)

	mu      sync.Mutex
	request container.ExecCreateRequest
	sizes   []string
	running bool
	code    int
	pid     int
	reject  int // how many sizes are rejected
}

// runsCommands lets the daemon run commands in every container.
func (f *fixture) runsCommands(c *fakeCommand) {
	f.Handle("POST /containers/{id}/exec", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = json.NewDecoder(r.Body).Decode(&c.request)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"Id":"e1"}`)
	})
	f.Handle("POST /exec/e1/start", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			f.t.Error(err)
			return
		}
		defer conn.Close()
		c.setRunning(true)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		c.talk(conn, buffered)
		c.setRunning(false)
	})
	f.Handle("POST /exec/e1/resize", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.reject > 0 {
			c.reject--
			http.Error(w, `{"message":"the command does not run"}`, http.StatusConflict)
			return
		}
		c.sizes = append(c.sizes, r.URL.Query().Get("h")+"x"+r.URL.Query().Get("w"))
	})
	f.Handle("GET /exec/e1/json", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, _ = fmt.Fprintf(w, `{"ID":"e1","Running":%t,"ExitCode":%d,"Pid":%d}`, c.running, c.code, c.pid)
	})
}

func (c *fakeCommand) setRunning(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = on
}

func (c *fakeCommand) sizesSet() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sizes
}

// multiplexed is one of the outputs of a command without a terminal.
type multiplexed struct {
	conn   net.Conn
	stream stdcopy.StdType
}

func (m multiplexed) Write(p []byte) (int, error) {
	header := [8]byte{byte(m.stream)}
	binary.BigEndian.PutUint32(header[4:], uint32(len(p)))
	_, err := m.conn.Write(append(header[:], p...))
	return len(p), err
}

func TestExec_PassesBothOutputsAndTheInput(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	c := &fakeCommand{code: 7, talk: func(conn net.Conn, stdin io.Reader) {
		_, _ = io.WriteString(multiplexed{conn, stdcopy.Stderr}, "beside\n")
		_, _ = io.Copy(multiplexed{conn, stdcopy.Stdout}, stdin)
	}}
	f.runsCommands(c)
	text := strings.Repeat("0123456789", 20_000)
	var out, errs bytes.Buffer
	result, err := d.Exec(t.Context(), cfg.ID, &driver.ExecConfig{
		Command: []string{"cat", "-"},
		Stdin:   strings.NewReader(text),
		Stdout:  &out,
		Stderr:  &errs,
	})
	if err != nil || result.ExitCode != 7 || out.String() != text || errs.String() != "beside\n" {
		t.Errorf("got %+v, %v, %d bytes and %q", result, err, out.Len(), errs.String())
	}
	want := container.ExecCreateRequest{
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Cmd:          []string{"cat", "-"},
	}
	if got := fmt.Sprintf("%+v", c.request); got != fmt.Sprintf("%+v", want) {
		t.Errorf("the daemon was asked for %s", got)
	}
}

func TestExec_GivesATerminal(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	c := &fakeCommand{reject: 2, talk: func(conn net.Conn, stdin io.Reader) {
		line := make([]byte, 5)
		_, _ = io.ReadFull(stdin, line)
		_, _ = conn.Write(line)
		end := make([]byte, 1)
		_, _ = io.ReadFull(stdin, end)
		_, _ = fmt.Fprintf(conn, "%q", end)
	}}
	f.runsCommands(c)
	stdin, feed := io.Pipe()
	sizes := make(chan driver.TerminalSize, 1)
	sizes <- driver.TerminalSize{Height: 24, Width: 80}
	var out bytes.Buffer
	go func() {
		f.awaitSizes(c, "24x80")
		_, _ = io.WriteString(feed, "line\n")
		_ = feed.Close()
	}()
	result, err := d.Exec(t.Context(), cfg.ID, &driver.ExecConfig{
		Command: []string{"sh"},
		TTY:     true,
		Stdin:   stdin,
		Stdout:  &out,
		Resize:  sizes,
	})
	if err != nil || !result.Successful() || out.String() != "line\n"+`"\x04"` {
		t.Errorf("got %+v, %v: %q", result, err, out.String())
	}
	if !c.request.Tty {
		t.Error("the daemon was not asked for a terminal")
	}
}

// awaitSizes waits for a size that the daemon accepts.
func (f *fixture) awaitSizes(c *fakeCommand, want string) {
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if got := c.sizesSet(); len(got) > 0 {
			if got[0] != want {
				f.t.Errorf("the size is %v, want %s", got, want)
			}
			return
		}
		if time.Now().After(limit) {
			f.t.Errorf("no size is set")
			return
		}
	}
}

func TestExec_Failures(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	command := &driver.ExecConfig{Command: []string{"true"}, Stdout: io.Discard, Stderr: io.Discard}
	kinds := map[string]struct {
		status int
		want   structs.Kind
	}{
		"a container that has ended": {http.StatusConflict, structs.KindConflict},
		"a container that is gone":   {http.StatusNotFound, structs.KindConflict},
		"a daemon with a fault":      {http.StatusInternalServerError, structs.KindPrecondition},
	}
	for name, c := range kinds {
		f.Handle("POST /containers/{id}/exec", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"so it is"}`, c.status)
		})
		_, err := d.Exec(t.Context(), cfg.ID, command)
		if !structs.IsKind(err, c.want) || !strings.Contains(err.Error(), "so it is") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Exec(t.Context(), "a2/web", command); !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("an unknown task: %v", err)
	}
	if _, err := d.Exec(t.Context(), cfg.ID, &driver.ExecConfig{}); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("no command: %v", err)
	}
	c := &fakeCommand{talk: func(conn net.Conn, _ io.Reader) {
		_, _ = io.WriteString(conn, "no stream of both")
	}}
	f.runsCommands(c)
	if _, err := d.Exec(t.Context(), cfg.ID, command); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a stream of garbage: %v", err)
	}
	f.Stop()
	if _, err := d.Exec(t.Context(), cfg.ID, command); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("no daemon: %v", err)
	}
}

// cancelling ends a context with the first output of a command.
type cancelling struct{ cancel func() }

func (c cancelling) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

// TestExec_EndsWithItsContext: also if the daemon does not say which process the command is, and leaves the
// connection open.
func TestExec_EndsWithItsContext(t *testing.T) {
	shorten(t, &cleanupTimeout)
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	f.runsCommands(&fakeCommand{talk: func(conn net.Conn, stdin io.Reader) {
		_, _ = io.WriteString(multiplexed{conn, stdcopy.Stdout}, "up")
		_, _ = io.Copy(io.Discard, stdin) // until the driver hangs up
	}})
	f.Handle("GET /exec/e1/json", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	ctx, cancel := context.WithCancel(t.Context())
	stdin, feed := io.Pipe()
	defer feed.Close()
	_, err := d.Exec(ctx, cfg.ID, &driver.ExecConfig{
		Command: []string{"sh"},
		Stdin:   stdin,
		Stdout:  cancelling{cancel},
		Stderr:  io.Discard,
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The output of a command may arrive before the daemon names its process.
func TestExec_LooksForTheProcessUntilTheDaemonNamesIt(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	named := make(chan struct{})
	c := &fakeCommand{talk: func(conn net.Conn, _ io.Reader) {
		_, _ = io.WriteString(multiplexed{conn, stdcopy.Stdout}, "up")
		select {
		case <-named:
		case <-t.Context().Done():
		}
	}}
	f.runsCommands(c)
	answers := 0 // the driver asks one after the other
	f.Handle("GET /exec/e1/json", func(w http.ResponseWriter, _ *http.Request) {
		answers++
		pid := 0
		if answers == 3 {
			pid = 1<<22 + 1 // more than the kernel's largest
			close(named)
		}
		_, _ = fmt.Fprintf(w, `{"ID":"e1","Running":%t,"Pid":%d}`, answers <= 3, pid)
	})
	ctx, cancel := context.WithCancel(t.Context())
	command := &driver.ExecConfig{
		Command: []string{"sh"},
		Stdout:  cancelling{cancel},
		Stderr:  io.Discard,
	}
	if _, err := d.Exec(ctx, cfg.ID, command); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-named:
	default:
		t.Errorf("the driver has asked %d times for the process", answers)
	}
}

// A command whose start has an unknown outcome may run: the driver asks for its process, to kill that.
func TestExec_LooksForACommandThatMayRun(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.start(d, cfg)
	f.runsCommands(&fakeCommand{})
	ctx, cancel := context.WithCancel(t.Context())
	f.Handle("POST /exec/e1/start", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	command := &driver.ExecConfig{Command: []string{"sh"}, Stdout: io.Discard, Stderr: io.Discard}
	if _, err := d.Exec(ctx, cfg.ID, command); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if calls := f.Calls("GET /exec/e1/json"); len(calls) != 1 {
		t.Errorf("the daemon was asked for the process %d times", len(calls))
	}
}

// A process that the daemon names is killed only in a cgroup of the container.
func TestKillInContainer_LeavesOtherProcessesAlone(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	err := killInContainer(cmd.Process.Pid, strings.Repeat("c", 64))
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
	if err := killInContainer(1<<22+1, "c"); err != nil { // more than the kernel's largest pid
		t.Errorf("a process that is gone: %v", err)
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, own, _ := strings.Cut(strings.TrimSpace(string(groups)), "/")
	if own == "" {
		kit.SkipLacking(t, "a cgroup that is not the root")
	}
	if err := killInContainer(cmd.Process.Pid, own); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != -1 {
		t.Errorf("the process has ended with %d, want a kill", code)
	}
}
