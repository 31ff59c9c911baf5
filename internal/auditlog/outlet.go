package auditlog

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/internal/coalesce"
	"berth/structs"
)

// The bounds of an outlet, in lines.
const (
	maxBatch = 1024
	maxQueue = 1024
	maxOwed  = 4096
)

// sink is one place for lines. One goroutine at a time uses it.
type sink interface {
	// prepare opens the sink.
	prepare() error
	// write returns after the lines are there. It opens the sink if it is not open.
	write(lines []byte) error
	close()
}

// outlet is a sink with its guarantee.
type outlet struct {
	name     string
	enforced bool
	sink     sink
	logger   hclog.Logger
	labels   []metrics.Label

	using  chan struct{} // has a value while somebody uses sink and failed
	failed bool          // the last write

	mu   sync.Mutex
	owed [][]byte // lines of changes that were made, which an enforced sink did not take

	batches coalesce.Batcher[struct{}, []byte] // of an enforced sink
	queue   chan []byte                        // of another
	closed  chan struct{}                      // ends run
	running sync.WaitGroup
}

func newOutlet(s Sink, d Deps) *outlet {
	o := &outlet{
		name:     s.Name,
		enforced: s.DeliveryGuarantee == Enforced,
		logger:   d.Logger.With("sink", s.Name),
		labels:   []metrics.Label{{Name: "sink", Value: s.Name}},
		using:    make(chan struct{}, 1),
		closed:   make(chan struct{}),
	}

	switch s.Type {
	case TypeStdout:
		o.sink = stream{d.Stdout}
	case TypeSyslog:
		o.sink = newDaemon()
	default:
		o.sink = newFile(s, d.Now, func(err error) {
			o.logger.Error("failed to rotate an audit log", "path", s.Path, "error", err)
		})
	}

	o.batches.Most = maxBatch
	o.batches.Propose = func(ctx context.Context, _ struct{}, lines [][]byte) (uint64, error) {
		return 0, o.writeNow(ctx, lines)
	}
	if !o.enforced {
		o.queue = make(chan []byte, maxQueue)
		o.running.Go(o.run)
	}
	return o
}

// begin hands a line over before a change.
func (o *outlet) begin(ctx context.Context, line []byte) error {
	err := o.hand(ctx, line)
	if err != nil {
		return structs.Unavailablef("nothing was changed, because the audit log cannot have it: sink %q is "+
			"enforced and fails: %w; correct the sink, or set its delivery_guarantee to %q", o.name, err, BestEffort)
	}
	return nil
}

// end hands a line over after a change. It cannot be taken back, so an enforced sink owes the line.
func (o *outlet) end(ctx context.Context, line []byte) {
	err := o.hand(ctx, line)
	if err == nil {
		return
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.owed) >= maxOwed {
		o.lose(1)
		return
	}
	o.owed = append(o.owed, line)
}

// deny hands the line of a denied call over.
func (o *outlet) deny(ctx context.Context, line []byte) {
	err := o.hand(ctx, line)
	if err != nil {
		o.lose(1)
	}
}

// hand returns after an enforced sink has a line. Another one gets it later, or loses it.
func (o *outlet) hand(ctx context.Context, line []byte) error {
	if o.enforced {
		_, err := o.batches.Do(ctx, struct{}{}, line)
		return err
	}

	select {
	case o.queue <- line:
	default:
		o.lose(1)
	}
	return nil
}

// acquire waits until nobody uses the sink. A disk that does not answer keeps its user for ever.
func (o *outlet) acquire(ctx context.Context) error {
	select {
	case o.using <- struct{}{}:
		return nil
	case <-ctx.Done():
		return structs.Unavailablef("it has not taken the lines before for %s", patience)
	}
}

func (o *outlet) release() { <-o.using }

// writeNow writes lines, after the lines that the sink owes.
func (o *outlet) writeNow(ctx context.Context, lines [][]byte) error {
	err := o.acquire(ctx)
	if err != nil {
		return err
	}
	defer o.release()

	all := append(o.takeOwed(), lines...)
	if len(all) == 0 {
		return nil
	}
	start := time.Now()
	err = o.sink.write(bytes.Join(all, nil))
	metrics.MeasureSinceWithLabels([]string{"audit", "write"}, start, o.labels)
	o.note(err)
	if err != nil {
		o.owe(all[:len(all)-len(lines)])
		return err
	}
	metrics.IncrCounterWithLabels([]string{"audit", "lines"}, float32(len(all)), o.labels)
	return nil
}

func (o *outlet) takeOwed() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	owed := o.owed
	o.owed = nil
	return owed
}

// owe gives lines back that takeOwed has returned.
func (o *outlet) owe(lines [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owed = append(lines[:len(lines):len(lines)], o.owed...)
}

// note logs the begin and the end of a fault of the sink. The caller uses the sink.
func (o *outlet) note(err error) {
	if err != nil {
		metrics.IncrCounterWithLabels([]string{"audit", "failed"}, 1, o.labels)
	}
	switch {
	case err != nil && !o.failed:
		o.logger.Error("audit sink failed", "enforced", o.enforced, "error", err)
	case err == nil && o.failed:
		o.logger.Info("audit sink works again")
	}
	o.failed = err != nil
}

// lose counts lines that the sink will never have.
func (o *outlet) lose(lines int) {
	metrics.IncrCounterWithLabels([]string{"audit", "lost"}, float32(lines), o.labels)
}

// run writes the lines of the queue until close.
func (o *outlet) run() {
	for {
		select {
		case line := <-o.queue:
			o.writeQueued(line)
		case <-o.closed:
			// The lines that were handed over before the end are written.
			for len(o.queue) > 0 {
				o.writeQueued(<-o.queue)
			}
			return
		}
	}
}

// writeQueued writes a line of the queue with those behind it.
func (o *outlet) writeQueued(line []byte) {
	lines := [][]byte{line}
	for len(o.queue) > 0 && len(lines) < maxBatch {
		lines = append(lines, <-o.queue)
	}

	err := o.writeNow(context.Background(), lines)
	if err != nil {
		o.lose(len(lines))
	}
}

// reopen closes the sink, opens it and writes what it owes.
func (o *outlet) reopen(ctx context.Context) {
	err := o.acquire(ctx)
	if err != nil {
		o.logger.Error("audit sink was not opened again", "error", err)
		return
	}
	o.sink.close()
	err = o.sink.prepare()
	o.note(err)
	o.release()
	if err == nil {
		_ = o.writeNow(ctx, nil)
	}
}

// close writes what waits. A disk that does not answer does not keep the agent from its end.
func (o *outlet) close(ctx context.Context) {
	close(o.closed)
	written := make(chan struct{})
	go func() {
		defer close(written)
		o.running.Wait()
		_ = o.writeNow(ctx, nil)
		if o.acquire(ctx) == nil {
			o.sink.close()
			o.release()
		}
	}()
	select {
	case <-written:
	case <-ctx.Done():
		o.logger.Error("audit sink does not take its last lines")
	}
}
