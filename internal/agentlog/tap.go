package agentlog

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

// maxWaiting bounds the bytes that wait for one reader.
const maxWaiting = 1 << 20

// openTaps counts the taps of this process.
var openTaps atomic.Int32

// Following reports whether a reader follows the log of this process. A line that is costly to make is made
// for the log's own level, or for a reader.
func Following() bool { return openTaps.Load() > 0 }

// TapOptions select lines and their form.
type TapOptions struct {
	Level hclog.Level // lines of this level and above
	JSON  bool        // one object a line
}

// Tap has the lines for one reader. One goroutine reads it. It has a level of its own, whatever the log's is,
// and never delays the process: a slow reader misses lines and is told how many.
type Tap struct {
	logger hclog.InterceptLogger
	sink   hclog.SinkAdapter
	json   bool
	ready  chan struct{} // has a value if there are lines

	closing sync.Once

	mu    sync.Mutex // it guards the fields below; writers hold it for a copy alone
	lines []byte
	lost  int
}

// OpenTap returns a tap of a logger, for the lines from now on. The caller closes it. The error is a failed
// precondition for a logger that cannot be followed.
func OpenTap(logger hclog.Logger, o TapOptions) (*Tap, error) {
	followed, ok := logger.(hclog.InterceptLogger)
	if !ok {
		return nil, structs.Preconditionf("the log of this agent cannot be followed")
	}
	t := &Tap{
		logger: followed,
		json:   o.JSON,
		ready:  make(chan struct{}, 1),
	}
	t.sink = hclog.NewSinkAdapter(&hclog.LoggerOptions{
		Level:      o.Level,
		JSONFormat: o.JSON,
		Output:     lineWriter{t},
	})
	openTaps.Add(1)
	followed.RegisterSink(t.sink)
	return t, nil
}

// Close ends the tap. It may be called again.
func (t *Tap) Close() {
	t.closing.Do(func() {
		t.logger.DeregisterSink(t.sink)
		openTaps.Add(-1)
	})
}

// Next returns the lines since the last call. It waits until there is one, for a time at most, or until ctx
// ends, and then returns none.
func (t *Tap) Next(ctx context.Context, wait time.Duration) []byte {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-t.ready:
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteLost()
	lines := t.lines
	t.lines = nil
	return lines
}

// lineWriter is the output of the sink of a tap.
type lineWriter struct{ tap *Tap }

// Write keeps a line for the reader, or counts it as lost.
func (w lineWriter) Write(line []byte) (int, error) {
	t := w.tap
	t.mu.Lock()
	if len(t.lines)+len(line) > maxWaiting {
		t.lost++
	} else {
		t.noteLost()
		t.lines = append(t.lines, line...)
	}
	t.mu.Unlock()

	select {
	case t.ready <- struct{}{}:
	default:
	}
	return len(line), nil
}

// noteLost adds a line about the lost ones, at their place.
func (t *Tap) noteLost() {
	if t.lost == 0 {
		return
	}
	var note bytes.Buffer
	hclog.New(&hclog.LoggerOptions{
		Name:       t.logger.Name(),
		JSONFormat: t.json,
		Output:     &note,
	}).Warn("lines are missing here, because their reader was too slow", "lines", t.lost)
	t.lines = append(t.lines, note.Bytes()...)
	t.lost = 0
}
