package auditlog

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

// patience bounds the wait for an enforced sink, and at the end the wait for the others.
const patience = 10 * time.Second

// Deps are the parts that a Log uses.
type Deps struct {
	Agent  string // its name, in each line
	Logger hclog.Logger
	Now    func() time.Time // nil: time.Now
	Stdout io.Writer        // nil: os.Stdout
}

// Log is the audit log of one agent. It is safe for many goroutines. A nil Log takes no event.
type Log struct {
	Deps
	filters []*Filter
	sinks   []*outlet
	denials *denials
}

// Open opens the sinks. It returns nil if the block is not enabled. Config.Finish has completed the block. An
// enforced sink that does not open is a failed precondition. Close ends the log.
func Open(c Config, d Deps) (*Log, error) {
	if !c.Enabled {
		return nil, nil
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Stdout == nil {
		d.Stdout = os.Stdout
	}

	l := &Log{
		Deps:    d,
		filters: c.Filters,
		denials: newDenials(d.Now),
	}
	for _, s := range c.Sinks {
		o := newOutlet(*s, d)
		l.sinks = append(l.sinks, o)
		err := o.sink.prepare()
		if err == nil {
			continue
		}
		if o.enforced {
			l.Close()
			return nil, structs.Preconditionf("audit: sink %q: %w; correct it, or set delivery_guarantee = %q",
				s.Name, err, BestEffort)
		}
		o.note(err)
	}
	return l, nil
}

// Begin writes the line of a change that is about to be made. The error is unavailable if an enforced sink
// does not take it: the caller must not make the change then.
func (l *Log) Begin(ctx context.Context, e *Event) error {
	line, err := l.line(e, Received)
	if err != nil || line == nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, o := range l.sinks {
		err := o.begin(ctx, line)
		if err != nil {
			l.takeBack(ctx, e, l.sinks[:i], err)
			return err
		}
	}
	return nil
}

// takeBack tells the sinks that have the line of a change that it is not made.
func (l *Log) takeBack(ctx context.Context, e *Event, sinks []*outlet, fault error) {
	e.Result = string(structs.KindOf(fault))
	e.Error = "another sink failed"
	line, err := l.line(e, Complete)
	if err != nil || line == nil {
		return
	}
	for _, o := range sinks {
		o.end(context.WithoutCancel(ctx), line)
	}
}

// End writes the line of a change that was made, or has failed.
func (l *Log) End(ctx context.Context, e *Event) {
	line, err := l.line(e, Complete)
	if err != nil || line == nil {
		return
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, o := range l.sinks {
		o.end(ctx, line)
	}
}

// Deny writes the line of a call that was denied, or that has changed nothing and whose caller needs no
// token. Of very many in a short time some have no line: the next
// one has their number.
func (l *Log) Deny(ctx context.Context, e *Event) {
	omitted, ok := l.denials.admit()
	if !ok {
		return
	}
	e.Omitted = omitted
	line, err := l.line(e, Complete)
	if err != nil || line == nil {
		return
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, o := range l.sinks {
		o.deny(ctx, line)
	}
}

// line completes the event and returns its line, nil if a filter leaves it out.
func (l *Log) line(e *Event, stage string) ([]byte, error) {
	e.Time = l.Now().UTC()
	e.Stage = stage
	e.Agent = l.Agent
	if leavesOut(l.filters, e) {
		return nil, nil
	}
	line, err := e.line()
	if err != nil {
		return nil, structs.Internalf("audit: %w", err)
	}
	return line, nil
}

// Reopen closes the files and opens them again, and writes the lines that a sink still owes.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, o := range l.sinks {
		o.reopen(ctx)
	}
}

// Close writes the lines that wait, and ends the log. Nothing may use it any more.
func (l *Log) Close() {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, o := range l.sinks {
		o.close(ctx)
	}
}
