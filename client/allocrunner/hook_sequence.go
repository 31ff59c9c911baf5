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

// downRetry paces the retries of failed Downs.
var downRetry = backoff.Backoff{Min: time.Second, Max: time.Minute}

// boundHook is a hook of either kind with its environment bound.
type boundHook struct {
	name string
	up   func(ctx context.Context) error
	down func(ctx context.Context) error
}

// hookSequence runs hooks up in order and down in reverse, and keeps on record which are begun.
type hookSequence struct {
	list  []boundHook
	begun []string
	// save makes begun durable.
	save   func(begun []string) error
	logger hclog.Logger
}

// hookError is the error of one hook.
type hookError struct {
	hook string
	err  error
}

func (e *hookError) Error() string { return fmt.Sprintf("hook %s: %v", e.hook, e.err) }
func (e *hookError) Unwrap() error { return e.err }

// up takes every hook up, each on record before it is begun. At the first that fails it stops: down then
// takes down that one and those before it.
func (s *hookSequence) up(ctx context.Context) error {
	for _, st := range s.list {
		if err := s.recordBegun(st.name); err != nil {
			return &hookError{st.name, err}
		}
		begin := time.Now()
		if err := st.up(ctx); err != nil {
			return &hookError{st.name, err}
		}
		s.logger.Debug("hook is up", "hook", st.name, "took", time.Since(begin))
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

// down takes the begun hooks down in reverse, past errors, and returns all errors. It removes finished hooks
// from the record, so that the next call does only the rest. It drops a recorded hook that this agent does
// not have (it is of another version).
func (s *hookSequence) down(ctx context.Context) error {
	var errs []error
	for _, st := range slices.Backward(s.list) {
		if !slices.Contains(s.begun, st.name) {
			continue
		}
		if err := st.down(ctx); err != nil {
			errs = append(errs, &hookError{st.name, err})
			continue
		}
		s.begun = slices.DeleteFunc(slices.Clone(s.begun), func(n string) bool { return n == st.name })
		if err := s.save(s.begun); err != nil {
			errs = append(errs, &hookError{st.name, err})
		}
	}
	if len(errs) == 0 && len(s.begun) > 0 {
		s.logger.Warn("hooks on record are unknown to this agent", "hooks", s.begun)
		s.begun = nil
		return s.save(nil)
	}
	return errors.Join(errs...)
}

// downUntilDone repeats down until it succeeds. It reports false when ctx ended first.
func (s *hookSequence) downUntilDone(ctx context.Context) bool {
	pause := downRetry
	for {
		err := s.down(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		wait := pause.Next()
		s.logger.Warn("taking down failed, it is tried again", "again_in", wait, "error", err)
		if !backoff.Sleep(ctx, wait) {
			return false
		}
	}
}
