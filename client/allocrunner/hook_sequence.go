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
	// save makes begun durable.
	save   func(begun []string) error
	logger hclog.Logger
}

// up calls Up of every hook, in order. It records each hook first. It stops at the first failure: down then
// takes down the failed hook and those before it.
func (s *hookSequence) up(ctx context.Context) error {
	for _, h := range s.list {
		begin := time.Now()
		err := s.recordBegun(h.name)
		if err == nil {
			err = h.up(ctx)
		}
		if err != nil {
			return fmt.Errorf("hook %s: %w", h.name, err)
		}
		s.logger.Debug("hook complete",
			"hook", h.name, "took", time.Since(begin))
	}
	return nil
}

func (s *hookSequence) recordBegun(name string) error {
	if slices.Contains(s.begun, name) {
		return nil
	}
	begun := append(slices.Clone(s.begun), name)
	if err := s.save(begun); err != nil {
		return err
	}
	s.begun = begun
	return nil
}

// assumeBegun marks every hook as begun and returns their names.
func (s *hookSequence) assumeBegun() []string {
	for _, h := range s.list {
		s.begun = append(s.begun, h.name)
	}
	return s.begun
}

// down calls Down of the begun hooks in reverse, past errors, and returns all errors. It removes finished
// hooks from the record, so that the next call does only the rest. It drops a recorded hook that this agent
// does not have: an agent of another version recorded it.
func (s *hookSequence) down(ctx context.Context) error {
	var errs []error
	for _, h := range slices.Backward(s.list) {
		if !slices.Contains(s.begun, h.name) {
			continue
		}
		err := h.down(ctx)
		if err == nil {
			s.begun = slices.DeleteFunc(slices.Clone(s.begun), func(n string) bool {
				return n == h.name
			})
			err = s.save(s.begun)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("hook %s: %w", h.name, err))
		}
	}
	if len(errs) == 0 && len(s.begun) > 0 {
		s.logger.Warn("record names hooks that this agent does not have", "hooks", s.begun)
		s.begun = nil
		return s.save(nil)
	}
	return errors.Join(errs...)
}

// downUntilDone repeats down until it succeeds. It reports false if ctx ended first.
func (s *hookSequence) downUntilDone(ctx context.Context) bool {
	return downRetry.Retry(ctx, s.logger,
		"failed to take down a hook, retrying", s.down)
}
