package executor

import (
	"os"
	"sync"
	"time"

	"berth/internal/logfile"
)

// drainTimeout bounds the wait for output that processes outside the task still hold open.
const drainTimeout = 2 * time.Second

// output copies the task's stdout and stderr into files.
type output struct {
	stdout, stderr stream
	copying        sync.WaitGroup
}

// stream is one pipe and the files that its content goes to. Without files w is /dev/null.
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
	o.copyStream(o.stdout)
	o.copyStream(o.stderr)
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

func (o *output) copyStream(s stream) {
	if s.r == nil {
		return
	}
	o.copying.Go(func() {
		_ = copyOutput(s.to, s.r)
	})
}

// started closes the write ends, which belong to the task now.
func (o *output) started() {
	// This process has written nothing, so an error has no meaning.
	// With them open here, the output would have no end.
	_ = o.stdout.w.Close()
	_ = o.stderr.w.Close()
}

// close waits for the end of the output, at most for the timeout, copies what is left in the pipes then, and
// closes the files. The methods of a nil file only return an error.
func (o *output) close(timeout time.Duration) {
	deadline := time.Now().Add(timeout)
	streams := []stream{o.stdout, o.stderr}
	for _, s := range streams {
		_ = s.r.SetReadDeadline(deadline)
		_ = s.w.Close() // closed already if the task was started
	}
	o.copying.Wait()
	for _, s := range streams {
		_ = s.r.Close()
		if s.to != nil {
			_ = s.to.Close()
		}
	}
}
