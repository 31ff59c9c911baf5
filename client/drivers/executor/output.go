package executor

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"berth/internal/logfile"
)

// drainWithin is how long the output is waited for that processes outside the task still hold open.
const drainWithin = 2 * time.Second

// output is the task's stdout and stderr on their way into files.
type output struct {
	stdout, stderr stream
	copying        sync.WaitGroup
}

// stream is one pipe and the files behind it; without files w is /dev/null.
type stream struct {
	r, w *os.File
	to   *logfile.Rotator
}

func openOutput(l Logs) (*output, error) {
	o := &output{}
	var err error
	o.stdout, err = openStream(l, logfile.Stdout)
	if err == nil {
		o.stderr, err = openStream(l, logfile.Stderr)
	}
	if err != nil {
		o.close(0)
		return nil, err
	}
	o.copy(o.stdout)
	o.copy(o.stderr)
	return o, nil
}

func openStream(l Logs, kind string) (s stream, err error) {
	if l.Disabled {
		s.w, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		return s, err
	}
	l.Kind = kind
	s.to, err = logfile.NewRotator(l.Config)
	if err != nil {
		return s, err
	}
	s.r, s.w, err = os.Pipe()
	return s, err
}

func (o *output) copy(s stream) {
	if s.r == nil {
		return
	}
	o.copying.Go(func() { _, _ = io.Copy(s.to, s.r) })
}

// started closes the write ends, which belong to the task now.
func (o *output) started() {
	_ = errors.Join(o.stdout.w.Close(), o.stderr.w.Close()) // nothing was written on this side
}

// close waits for the rest of the output, at most for the given time, and closes the files.
func (o *output) close(within time.Duration) {
	for _, s := range []stream{o.stdout, o.stderr} {
		if s.r != nil {
			_ = s.r.SetReadDeadline(time.Now().Add(within))
		}
		if s.w != nil {
			_ = s.w.Close() // closed already if the task was started
		}
	}
	o.copying.Wait()
	for _, s := range []stream{o.stdout, o.stderr} {
		if s.r != nil {
			_ = s.r.Close()
		}
		if s.to != nil {
			_ = s.to.Close()
		}
	}
}
