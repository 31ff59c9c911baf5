package allocrunner

import (
	"fmt"
	"time"

	"berth/structs"
)

// history has the begin of the current interval of the restart policy, and the restarts within it.
type history struct {
	Since time.Time
	Count int
}

// ending is the result of one run of a task's process.
type ending struct {
	ok     bool   // the process ended by itself, successfully
	final  bool   // the process could not be started and never will be
	wanted bool   // the process was stopped in order to start it again: the restart is no attempt
	reason string // for users
}

// decision is the consequence of an ending: another start after a delay, or none.
type decision struct {
	restart bool
	delay   time.Duration
	failed  bool // not restarted, and that is a failure
	reason  string
}

// The modes of a restart policy.
const (
	restartFail  = "fail"
	restartDelay = "delay"
)

// defaultRestart applies to a task without a policy.
var defaultRestart = structs.RestartPolicy{
	Attempts: 2,
	Interval: 30 * time.Minute,
	Delay:    15 * time.Second,
	Mode:     restartFail,
}

// restartPolicy is the task's own policy, else its group's.
func restartPolicy(g *structs.TaskGroup, t *structs.Task) structs.RestartPolicy {
	switch {
	case t.RestartPolicy != nil:
		return *t.RestartPolicy
	case g.RestartPolicy != nil:
		return *g.RestartPolicy
	}
	return defaultRestart
}

// decide returns the consequence of an ending. finite means that the task is expected to end by itself, so
// that a success is its end. The history counts every restart, also those after a success.
func (h *history) decide(p structs.RestartPolicy, finite bool, now time.Time, e ending) decision {
	switch {
	case e.ok && finite:
		return decision{}
	case e.final:
		return decision{failed: true, reason: e.reason}
	case e.wanted:
		return decision{restart: true, reason: e.reason}
	}

	expired := now.Sub(h.Since) > p.Interval
	if h.Since.IsZero() || expired {
		*h = history{Since: now}
	}

	h.Count++
	switch {
	case h.Count <= p.Attempts:
		return decision{
			restart: true,
			delay:   p.Delay,
			reason:  e.reason,
		}

	case p.Mode == restartDelay:
		delay := max(h.Since.Add(p.Interval).Sub(now), p.Delay)
		*h = history{}
		return decision{
			restart: true,
			delay:   delay,
			reason:  e.reason + "; attempts of this interval are used up",
		}
	}

	return decision{
		failed: true,
		reason: fmt.Sprintf("exceeded %d restarts in %s: %s",
			p.Attempts, p.Interval, e.reason),
	}
}
