package allocrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
)

// downRetry paces the retries of failed hooks and drivers.
var downRetry = backoff.Backoff{Min: time.Second, Max: time.Minute}

// boundHook is a hook of either kind with its environment bound.
type boundHook struct {
	name string
	up   func(ctx context.Context) error
	down func(ctx context.Context) error
}

// hookSequence calls the Ups of hooks in order and their Downs in reverse, and records the begun hooks.
type hookSequence struct {
	list  []boundHook
	begun []string
	// recorded has the begun hooks, and may have others: the next agent takes down all of these.
	recorded []string
	// save makes the recorded hooks durable.
	save   func(recorded []string) error
	logger hclog.Logger
}

// up calls Up of every hook, in order. It records all of them before, in one write. It stops at the first
// failure: down then takes down the failed hook and those before it.
func (s *hookSequence) up(ctx context.Context) error {
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
func (s *hookSequence) recordAll() error {
	return s.saveRecorded(s.withAll())
}

// withAll returns the recorded hooks and all others.
func (s *hookSequence) withAll() []string {
	all := slices.Clone(s.recorded)
	for _, h := range s.list {
		if !slices.Contains(all, h.name) {
			all = append(all, h.name)
		}
	}
	return all
}

// recordFirst returns the names of all hooks for the first record of their owner, who writes it.
func (s *hookSequence) recordFirst() []string {
	s.recorded = s.withAll()
	return s.recorded
}

// saveRecorded makes a list durable, unless it is the recorded one.
func (s *hookSequence) saveRecorded(names []string) error {
	if slices.Equal(names, s.recorded) {
		return nil
	}
	err := s.save(names)
	if err == nil {
		s.recorded = names
	}
	return err
}

func (s *hookSequence) markBegun(name string) {
	if !slices.Contains(s.begun, name) {
		s.begun = append(s.begun, name)
	}
}

// restore takes over the record of a former agent. Its hooks count as begun.
func (s *hookSequence) restore(recorded []string) {
	s.recorded = recorded
	s.begun = slices.Clone(recorded)
}

// assumeBegun marks every hook as begun and returns their names.
func (s *hookSequence) assumeBegun() []string {
	s.restore(s.withAll())
	return s.recorded
}

// down calls Down of the begun hooks in reverse, past errors, and returns all errors. The next call does only
// the rest. It then removes the finished hooks from the record, in one write, also those that this agent does
// not have: an agent of another version recorded them.
func (s *hookSequence) down(ctx context.Context) error {
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

// downUntilDone repeats down until it succeeds. It reports false if ctx ended first.
func (s *hookSequence) downUntilDone(ctx context.Context) bool {
	return downRetry.Retry(ctx, s.logger,
		"failed to take down a hook, retrying", s.down)
}
