package fencing

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/state"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	if os.Getenv(helperVar) != "" {
		os.Exit(runHelper())
	}
	goleak.VerifyTestMain(m)
}

// readInput begins each agent: it reads the options into variables.
const readInput = `#!/bin/sh
while IFS= read -r line; do
	case "$line" in
	action=*) action=${line#action=} ;;
	plug=*) plug=${line#plug=} ;;
	password=*) password=${line#password=} ;;
	esac
done
`

// agentOf makes a fence agent: a shell script, in which $action, $plug and $password are options.
func agentOf(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fence_test")
	writeProgram(t, path, readInput+script)
	return path
}

func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	err := kit.WriteProgram(path, script)
	if err != nil {
		t.Fatal(err)
	}
}

// offThenOff is an agent that switches off.
const offThenOff = `[ $action = off ] && exit 0; [ $action = status ] && exit 2; exit 1`

// shortID is the short form of the ID of the node, as in messages.
const shortID = "6f1d7b8e"

func node() *state.FenceTarget {
	return &state.FenceTarget{
		NodeID: shortID + "-0000-4000-8000-000000000001",
		Name:   "web1",
		Pins:   map[string]string{"vmid": "vm-7", "lines": "a\naction=on", "rack": "r1"},
	}
}

// unnamed is the node without a name that a join token bound.
func unnamed() *state.FenceTarget {
	t := node()
	t.Name = ""
	t.Unnamed = "no join token bound its name"
	return t
}

// secretFile makes a file that only its owner reads.
func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	err := os.WriteFile(path, []byte(content), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// patience bounds the waits of tests.
const patience = time.Minute

// fifo is a pipe with a name, by which tests hear of processes.
type fifo struct {
	t      *testing.T
	path   string
	in     *os.File
	reader *bufio.Reader
	writer *os.File // without it the pipe is at its end before the first process
	// hang is a command that ends with the test. A test that fails leaves no process.
	hang string
}

func newFifo(t *testing.T) *fifo {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	err := unix.Mkfifo(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })

	writer, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })

	err = in.SetReadDeadline(time.Now().Add(patience))
	if err != nil {
		t.Fatal(err)
	}
	return &fifo{t, path, in, bufio.NewReader(in), writer, hangingCommand(t)}
}

// hangingCommand returns a command that reads from a pipe without an end.
func hangingCommand(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	err := unix.Mkfifo(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	return "cat " + path
}

// awaitLine waits for a line from a process.
func (p *fifo) awaitLine() string {
	p.t.Helper()
	line, err := p.reader.ReadString('\n')
	if err != nil {
		p.t.Fatalf("no process writes to the pipe: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// awaitEnd waits until all processes that have the pipe open have ended.
func (p *fifo) awaitEnd() {
	p.t.Helper()
	_ = p.writer.Close()
	_, err := io.Copy(io.Discard, p.reader)
	if err != nil {
		p.t.Fatalf("a process has not ended: %v", err)
	}
}

// fence fences in the background.
func fence(ctx context.Context, d *Device) <-chan Result {
	done := make(chan Result, 1)
	go func() { done <- d.Fence(ctx, node()) }()
	return done
}

// wantParts reports the parts that a text lacks.
func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}
