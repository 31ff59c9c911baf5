package agentlog

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// OutliveReaders makes the process go on when the reader of its output ends, such as a pipe, a supervisor or
// a journal that was started again: a write then fails, and does not end the process. The runtime ends it
// otherwise. Children inherit nothing of it, as they would inherit an ignored signal.
func OutliveReaders() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // nobody waits for it: the write has the error
}

// Stream writes lines to a stream that may fail for a while, such as a file on a full disk. It counts the
// lines that are lost, and says so before the next line that is not. It is safe for concurrent use.
type Stream struct {
	mu    sync.Mutex
	to    io.Writer
	lost  int
	cause error // of the last loss
	// rest says that the last line is there in part, so that the next one needs a new line.
	rest bool
}

// NewStream returns a stream to a writer.
func NewStream(to io.Writer) *Stream { return &Stream{to: to} }

// Write writes one line. It returns the error of a line that is lost.
func (s *Stream) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > 0 && !s.tell() {
		s.lost++
		return 0, s.cause
	}

	n, err := s.to.Write(line)
	if err != nil {
		s.lose(n, err)
	}
	return n, err
}

// tell writes how many lines are lost, and reports whether it could.
func (s *Stream) tell() bool {
	text := fmt.Sprintf("log: %d lines are lost, they could not be written: %s\n", s.lost, s.cause)
	if s.rest {
		text = "\n" + text
	}

	n, err := io.WriteString(s.to, text)
	if err != nil {
		s.rest = s.rest || n > 0
		s.cause = err
		return false
	}
	s.lost = 0
	s.rest = false
	return true
}

// lose counts a line of which n bytes were written.
func (s *Stream) lose(n int, err error) {
	s.lost++
	s.cause = err
	s.rest = n > 0
}
