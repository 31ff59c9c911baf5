package interop

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// peerStream is a command that writes until it is interrupted.
type peerStream struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // closed at the end of the output
}

// stream starts a command. The end of the test kills it.
func (p peerCLI) stream(args ...string) *peerStream {
	p.t.Helper()
	s := &peerStream{
		t:     p.t,
		cmd:   p.command(p.t.Context(), args...),
		lines: make(chan string),
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case s.lines <- lines.Text():
			case <-p.t.Context().Done():
				return
			}
		}
	}()
	return s
}

// await waits for a line with a text. It calls act at once, and again until the line is there.
func (s *peerStream) await(text string, act func()) {
	s.t.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	act()
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("%q ended before a line with %q", s.cmd.Args, text)
			}
			if strings.Contains(line, text) {
				return
			}
		case <-again.C:
			act()
		case <-deadline:
			s.t.Fatalf("%q wrote no line with %q within %s", s.cmd.Args, text, patience)
		}
	}
}

// interrupt ends the command as Ctrl-C does, and fails the test unless it succeeds. A command of the tests
// takes the signal as soon as it has written something.
func (s *peerStream) interrupt() {
	s.t.Helper()
	if code := s.end(syscall.SIGINT); code != 0 {
		s.t.Errorf("%q ended with the exit code %d", s.cmd.Args, code)
	}
}

// end sends a signal, and returns the exit code.
func (s *peerStream) end(sig syscall.Signal) (code int) {
	s.t.Helper()
	checkNoError(s.t, "ending a command", s.cmd.Process.Signal(sig))
	for range s.lines { // to the end
	}
	_ = s.cmd.Wait() // for the exit code
	return s.cmd.ProcessState.ExitCode()
}
