package services

import (
	"cmp"
	"context"
	"sync"
	"time"

	"berth/client/drivers/driver"
	"berth/internal/backoff"
	"berth/structs"
)

// checkTarget is a check with all that its runs need.
type checkTarget struct {
	Check   *structs.ServiceCheck // with its placeholders replaced
	Address string                // host:port, "" for a script
	// Exec runs a command in the task of a script; nil if it does not run.
	Exec func(context.Context, *driver.ExecConfig) (*driver.ExitResult, error)
}

// checkStatus is the state of a check.
type checkStatus struct {
	Status string    // structs.CheckPending and so on
	Output string    // of the last run
	At     time.Time // of the last run; zero before it
	Since  time.Time // from when on it has been checkStatus
	// UsableSince is the time from which on it has been passing or warning; zero if it is neither.
	UsableSince time.Time
}

// healthCheck runs a check again and again: a request by HTTP, TCP or gRPC, or a script in a task. Make it
// with startCheck.
type healthCheck struct {
	target  checkTarget
	changed func()
	restart func(reason string)
	begun   func() time.Time
	results func(checkStatus)
	direct  bool // each result is the status

	mu     sync.Mutex
	status checkStatus

	// Only the check's own goroutine touches them.
	streak    int    // results in a row that are like last
	last      string // the last result
	unhealthy int    // results in a row that count for check_restart
	cancel    context.CancelFunc
	done      chan struct{}
}

// checkConfig is the surrounding of a check. None of the functions may block.
type checkConfig struct {
	// Changed is called after each change of the status.
	Changed func()
	// Restart restarts the tasks of the service. It is called when check_restart demands it.
	Restart func(reason string)
	// Begun returns the start of the tasks, from which the grace of check_restart counts; zero if none runs.
	Begun func() time.Time
	// Results, if not nil, is called after each run with the status after it.
	Results func(checkStatus)
}

// startCheck runs a check at once and then at its interval, until Cancel.
func startCheck(ctx context.Context, t checkTarget, c checkConfig) *healthCheck {
	ctx, cancel := context.WithCancel(ctx)
	k := newCheck(t, c, cancel)
	go k.run(ctx)
	return k
}

// newCheck makes a check with the initial status of its job. It starts no goroutine.
func newCheck(t checkTarget, c checkConfig, cancel context.CancelFunc) *healthCheck {
	k := &healthCheck{
		target:  t,
		changed: c.Changed,
		restart: c.Restart,
		begun:   c.Begun,
		results: c.Results,
		cancel:  cancel,
		done:    make(chan struct{}),
	}
	k.status.become(cmp.Or(t.Check.InitialStatus, structs.CheckPending), time.Now())
	return k
}

// become changes the status.
func (s *checkStatus) become(status string, now time.Time) {
	s.Status = status
	s.Since = now
	switch {
	case status != structs.CheckPassing && status != structs.CheckWarning:
		s.UsableSince = time.Time{}
	case s.UsableSince.IsZero():
		s.UsableSince = now
	}
}

// Cancel ends the check without a wait.
func (k *healthCheck) Cancel() { k.cancel() }

// Wait waits until the check has ended, after Cancel or with the context of startCheck.
func (k *healthCheck) Wait() { <-k.done }

// Status returns the state of the check.
func (k *healthCheck) Status() checkStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// run probes at once, and then an interval after the end of each run, until ctx ends.
func (k *healthCheck) run(ctx context.Context) {
	defer close(k.done)
	for {
		limited, cancel := context.WithTimeout(ctx, k.target.Check.Timeout)
		r := probe(limited, k.target)
		cancel()
		// The end of the check has cut the run short.
		if ctx.Err() != nil {
			return
		}

		// k.mu is not held: Changed may read the status.
		if k.record(r, time.Now()) {
			k.changed()
		}

		if k.results != nil {
			k.results(k.Status())
		}

		k.countRestart(r, time.Now())
		if !backoff.Sleep(ctx, k.target.Check.Interval) {
			return
		}
	}
}

// record notes a result and reports whether it has changed the status.
func (k *healthCheck) record(r probeResult, now time.Time) bool {
	if r.status == k.last {
		k.streak++
	} else {
		k.last = r.status
		k.streak = 1
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Output = r.output
	k.status.At = now
	// A warning counts at once.
	needed := 1
	switch r.status {
	case structs.CheckPassing:
		needed = k.target.Check.SuccessBeforePassing
	case structs.CheckFailing:
		needed = k.target.Check.FailuresBeforeCritical
	}

	// followCheck has the results of a check whose thresholds were applied already.
	if r.status == k.status.Status || k.streak < needed && !k.direct {
		return false
	}

	k.status.become(r.status, now)
	return true
}

// countRestart restarts the tasks after as many results in a row as check_restart allows. A result counts
// once it has changed the status, and while a task runs.
func (k *healthCheck) countRestart(r probeResult, now time.Time) {
	rule := k.target.Check.CheckRestart
	if rule == nil || rule.Limit == 0 {
		return
	}
	// The grace gives a task time to become healthy after its start.
	begun := k.begun()
	early := begun.IsZero() || rule.Grace != nil && now.Sub(begun) < *rule.Grace
	if early || !counts(rule, r.status) || !counts(rule, k.Status().Status) {
		k.unhealthy = 0
		return
	}
	k.unhealthy++
	if k.unhealthy < rule.Limit {
		return
	}
	// The tasks get their grace again, so the count begins anew.
	k.unhealthy = 0
	k.restart("healthcheck: check \"" + structs.Cut(k.target.Check.Name, structs.MaxQuoted) + "\" unhealthy")
}

// counts reports whether a result counts for check_restart.
func counts(rule *structs.CheckRestart, status string) bool {
	return status == structs.CheckFailing || status == structs.CheckWarning && !rule.IgnoreWarnings
}
