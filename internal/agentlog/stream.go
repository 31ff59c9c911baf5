package agentlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// OutliveReaders makes the process go on when the reader of its output ends, such as a pipe, a supervisor or
// a journal that was started again: a write then fails, and does not end the process. The runtime ends it
// otherwise. Children inherit nothing of it, as they would inherit an ignored signal.
func OutliveReaders() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // nobody waits for it: the write has the error
}

// patience bounds how long a line waits for a reader that does not read, such as a terminal that was stopped
// or a journal that hangs. All that logs waits with it.
const patience = 200 * time.Millisecond

var errNotRead = errors.New("nobody reads the log")

// Stream writes lines to a stream that may fail for a while, such as a file on a full disk, or that may take
// nothing for a while, such as a pipe that nobody reads. It counts the lines that are lost, and says so
// before the next line that is not. It is safe for concurrent use.
type Stream struct {
	mu       sync.Mutex
	out      output // of the line on its way, if there is one, else of the holder of mu
	pending  chan result
	onItsWay bool
	missed   int // lines since the one on its way
}

// result is the end of a write.
type result struct {
	n   int
	err error
}

// NewStream returns a stream to a writer.
func NewStream(to io.Writer) *Stream {
	return &Stream{
		out:     output{to: to},
		pending: make(chan result, 1),
	}
}

// Write writes one line. It returns the error of a line that is lost. A line that nobody reads is on its way
// until somebody does, and Write does not wait for it. The lines until then are lost.
func (s *Stream) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onItsWay && !s.arrived() {
		s.missed++
		return 0, errNotRead
	}

	kept := bytes.Clone(line) // the caller uses its buffer again
	go func() {
		n, err := s.out.write(kept)
		s.pending <- result{n, err}
	}()
	waiting := time.NewTimer(patience)
	defer waiting.Stop()
	select {
	case r := <-s.pending:
		return r.n, r.err
	case <-waiting.C:
		s.onItsWay = true
		return len(line), nil
	}
}

// arrived reports whether the line that was on its way has been read. Then it counts the lines behind it.
func (s *Stream) arrived() bool {
	select {
	case <-s.pending:
	default:
		return false
	}
	s.onItsWay = false
	if s.missed > 0 {
		s.out.lost += s.missed
		s.out.cause = errNotRead
		s.missed = 0
	}
	return true
}

// output is the stream behind a Stream.
type output struct {
	to    io.Writer
	lost  int
	cause error // of the last loss
	// rest says that the last line is there in part, so that the next one needs a new line.
	rest bool
}

func (o *output) write(line []byte) (int, error) {
	if o.lost > 0 && !o.tell() {
		o.lost++
		return 0, o.cause
	}

	n, err := o.to.Write(line)
	if err != nil {
		o.lose(n, err)
	}
	return n, err
}

// tell writes how many lines are lost, and reports whether it could.
func (o *output) tell() bool {
	text := fmt.Sprintf("log: %d lines are lost, they could not be written: %s\n", o.lost, o.cause)
	if o.rest {
		text = "\n" + text
	}

	n, err := io.WriteString(o.to, text)
	if err != nil {
		o.rest = o.rest || n > 0
		o.cause = err
		return false
	}
	o.lost = 0
	o.rest = false
	return true
}

// lose counts a line of which n bytes were written.
func (o *output) lose(n int, err error) {
	o.lost++
	o.cause = err
	o.rest = n > 0
}
