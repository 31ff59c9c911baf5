package lifecycle

import (
	"fmt"
	"time"

	"berth/structs"
)

// History has the begin of the current interval of the restart policy, and the restarts within it.
type History struct {
	Since time.Time
	Count int
}

// Ending is the result of one run of a task's process.
type Ending struct {
	OK     bool   // the process ended by itself, successfully
	Final  bool   // the process could not be started and never will be
	Wanted bool   // the process was stopped in order to start it again: the restart is no attempt
	Reason string // for users
}

// Decision is the consequence of an ending: another start after a delay, or none.
type Decision struct {
	Restart bool
	Delay   time.Duration
	Failed  bool // not restarted, and that is a failure
	Reason  string
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

// PolicyOf returns the task's own restart policy, else its group's, else the default.
func PolicyOf(g *structs.TaskGroup, t *structs.Task) structs.RestartPolicy {
	switch {
	case t.RestartPolicy != nil:
		return *t.RestartPolicy
	case g.RestartPolicy != nil:
		return *g.RestartPolicy
	}
	return defaultRestart
}

// Decide returns the consequence of an ending. finite means that the task is expected to end by itself, so
// that a success is its end. The history counts every restart, also those after a success.
func (h *History) Decide(p structs.RestartPolicy, finite bool, now time.Time, e Ending) Decision {
	switch {
	case e.OK && finite:
		return Decision{}
	case e.Final:
		return Decision{Failed: true, Reason: e.Reason}
	case e.Wanted:
		return Decision{Restart: true, Reason: e.Reason}
	}

	expired := now.Sub(h.Since) > p.Interval
	if h.Since.IsZero() || expired {
		*h = History{Since: now}
	}

	h.Count++
	switch {
	case h.Count <= p.Attempts:
		return Decision{
			Restart: true,
			Delay:   p.Delay,
			Reason:  e.Reason,
		}

	case p.Mode == restartDelay:
		delay := max(h.Since.Add(p.Interval).Sub(now), p.Delay)
		*h = History{}
		return Decision{
			Restart: true,
			Delay:   delay,
			Reason:  e.Reason + "; attempts of this interval are used up",
		}
	}

	return Decision{
		Failed: true,
		Reason: fmt.Sprintf("exceeded %d restarts in %s: %s",
			p.Attempts, p.Interval, e.Reason),
	}
}
