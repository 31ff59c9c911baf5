package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
)

// Pace spaces the retries of a runner: of failed hooks, and of the calls of drivers.
var Pace = backoff.Backoff{Min: time.Second, Max: time.Minute}

// step is a hook of either kind with its environment bound.
type step struct {
	name string
	up   func(ctx context.Context) error
	down func(ctx context.Context) error
}

// Sequence calls the Ups of hooks in order and their Downs in reverse, and records the begun hooks. It has no
// lock: its owner calls one method at a time.
type Sequence struct {
	list  []step
	begun []string
	// recorded has the begun hooks, and may have others: the next agent takes down all of these.
	recorded []string
	// save makes the recorded hooks durable.
	save   func(recorded []string) error
	logger hclog.Logger
}

// NewSequence returns a sequence without hooks. save makes the recorded hooks durable.
func NewSequence(logger hclog.Logger, save func(recorded []string) error) *Sequence {
	return &Sequence{logger: logger, save: save}
}

// AddAlloc adds a hook of an allocation, with its environment.
func (s *Sequence) AddAlloc(h Alloc, env *AllocEnv) {
	up := func(ctx context.Context) error { return h.Up(ctx, env) }
	s.list = append(s.list, step{h.Name(), up, h.Down})
}

// AddTask adds a hook of a task. env returns the environment of the present start.
func (s *Sequence) AddTask(h Task, env func() *TaskEnv) {
	up := func(ctx context.Context) error { return h.Up(ctx, env()) }
	s.list = append(s.list, step{h.Name(), up, h.Down})
}

// Up calls Up of every hook, in order. It records all of them before, in one write. It stops at the first
// failure: Down then takes down the failed hook and those before it.
func (s *Sequence) Up(ctx context.Context) error {
	err := s.recordAll()
	if err != nil {
		return err
	}
	for _, h := range s.list {
		begin := time.Now()
		s.markBegun(h.name)
		err := h.up(ctx)
		if err != nil {
			return fmt.Errorf("hook %s: %w", h.name, err)
		}
		s.logger.Debug("hook complete",
			"hook", h.name, "took", time.Since(begin))
	}
	return nil
}

// recordAll records the hooks that are not recorded yet.
func (s *Sequence) recordAll() error {
	return s.saveRecorded(s.withAll())
}

// withAll returns the recorded hooks and all others.
func (s *Sequence) withAll() []string {
	all := slices.Clone(s.recorded)
	for _, h := range s.list {
		if !slices.Contains(all, h.name) {
			all = append(all, h.name)
		}
	}
	return all
}

// RecordFirst returns the names of all hooks for the first record of their owner, who writes it.
func (s *Sequence) RecordFirst() []string {
	s.recorded = s.withAll()
	return s.recorded
}

// saveRecorded makes a list durable, unless it is the recorded one.
func (s *Sequence) saveRecorded(names []string) error {
	if slices.Equal(names, s.recorded) {
		return nil
	}
	err := s.save(names)
	if err == nil {
		s.recorded = names
	}
	return err
}

func (s *Sequence) markBegun(name string) {
	if !slices.Contains(s.begun, name) {
		s.begun = append(s.begun, name)
	}
}

// Restore takes over the record of a former agent. Its hooks count as begun.
func (s *Sequence) Restore(recorded []string) {
	s.recorded = recorded
	s.begun = slices.Clone(recorded)
}

// AssumeBegun marks every hook as begun and returns their names.
func (s *Sequence) AssumeBegun() []string {
	s.Restore(s.withAll())
	return s.recorded
}

// Down calls Down of the begun hooks in reverse, past errors, and returns all errors. The next call does only
// the rest. It then removes the finished hooks from the record, in one write, also hooks that this agent does
// not have: an agent of another version recorded them.
func (s *Sequence) Down(ctx context.Context) error {
	var errs []error
	for _, h := range slices.Backward(s.list) {
		if !slices.Contains(s.begun, h.name) {
			continue
		}

		err := h.down(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("hook %s: %w", h.name, err))
			continue
		}

		s.begun = slices.DeleteFunc(s.begun, func(n string) bool { return n == h.name })
	}

	if len(errs) == 0 && len(s.begun) > 0 {
		s.logger.Warn("record names hooks that this agent does not have", "hooks", s.begun)
		s.begun = nil
	}

	errs = append(errs, s.saveRecorded(slices.Clone(s.begun)))
	return errors.Join(errs...)
}

// DownUntilDone repeats Down until it succeeds. It reports false if ctx ended first.
func (s *Sequence) DownUntilDone(ctx context.Context) bool {
	return Pace.Retry(ctx, s.logger,
		"failed to take down a hook, retrying", s.Down)
}
