package control

import (
	"context"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
)

// periodicLoop launches the children of periodic jobs. The row of a job's last launch is the only memory: the
// next launch follows from it. The log entry of a launch moves the row and registers the child, so each time
// of a schedule has at most one child, whoever leads.
type periodicLoop struct{ Deps }

// catchUp is the time for which a launch may be late and still has its own time. One launch makes up for all
// that were missed for longer, for example while no server led. It has the time at which it happens.
const catchUp = 10 * time.Second

func (l periodicLoop) run(ctx context.Context) {
	for ctx.Err() == nil {
		tx := l.Store.ReadWatched()
		due, next := l.dueLaunches(tx, instant{time.Now(), l.Clock.Now()})
		launched := false
		for _, at := range due {
			if l.launch(ctx, tx, at) {
				launched = true
			}
		}

		switch {
		case launched: // the state has changed
		case len(due) > 0:
			backoff.Sleep(ctx, l.Config.Retry.Min) // the log has failed
		default:
			l.awaitChange(ctx, tx, next)
		}
	}
}

// dueLaunch is a time of the schedule of a job.
type dueLaunch struct {
	job    *structs.Job
	at     time.Time
	goesOn bool // nothing is launched: the schedule goes on from this time
}

// dueLaunches returns the launches that are due, one of each job, and the time of the next look.
func (l periodicLoop) dueLaunches(tx *state.ReadTx, clocks instant) (due []dueLaunch, next time.Time) {
	now := clocks.wall
	if clustertime.Far(now.Sub(clocks.cluster)) { // the clock may be set right at any time
		next = now.Add(clustertime.Tolerance)
	}
	for job := range state.PeriodicJobs(tx) {
		last := state.PeriodicLaunch(tx, job.Namespace, job.ID)
		if last == nil {
			continue
		}
		// The state may not know yet that the clock of this server was set: it decides, too.
		ahead := time.Unix(0, last.Launch).Sub(now) > clustertime.Tolerance
		if ahead && clustertime.Future(tx, last.Launch, clocks.cluster.UnixNano()) {
			from := time.Unix(0, clustertime.GoesOn(tx, now.UnixNano()))
			due = append(due, dueLaunch{job, from, true})
			continue
		}

		at, err := launchTime(job.Periodic, time.Unix(0, last.Launch), now)
		if err != nil {
			l.Logger.Error("failed to read the schedule of a job", "job_id", job.ID,
				"namespace", job.Namespace, "error", err)
			continue
		}

		switch {
		case at.IsZero():
		case !at.After(now):
			due = append(due, dueLaunch{job, at, false})
		case next.IsZero() || at.Before(next):
			next = at
		}
	}

	return due, next
}

// launchTime returns the time of the launch after the last one, zero if there is none. If it was missed by
// more than catchUp, it is now.
func launchTime(p *structs.PeriodicConfig, last, now time.Time) (time.Time, error) {
	at, err := p.Next(last)
	if err == nil && !at.IsZero() && at.Before(now.Add(-catchUp)) {
		at = now
	}
	return at, err
}

// launch records a launch and registers its child, or records that the launch is skipped. It reports whether
// the state has changed.
func (l periodicLoop) launch(ctx context.Context, tx *state.ReadTx, d dueLaunch) bool {
	p := &structs.PeriodicLaunchRequest{
		ParentID:       d.job.ID,
		JobModifyIndex: d.job.JobModifyIndex,
		Launch:         d.at.UnixNano(),
		WriteOptions:   l.stamp(d.job.Namespace),
	}

	if d.goesOn {
		l.Logger.Info("the last launch of a job is in the future: its schedule goes on from now",
			"job_id", d.job.ID, "namespace", d.job.Namespace)
	} else if d.job.Periodic.ProhibitOverlap && state.HasLiveChild(tx, d.job) {
		l.Logger.Debug("skipping a launch because a former child runs", "job_id", d.job.ID,
			"namespace", d.job.Namespace)
	} else {
		p.Child = d.job.ChildAt(d.at)
		p.Eval = structs.NewEval(p.Child, structs.TriggerPeriodicJob, p.Now)
		p.Eval.ID = structs.NewID()
	}

	err := propose(ctx, l.Deps, fsm.PeriodicLaunch, p)
	switch {
	case err == nil, structs.IsKind(err, structs.KindConflict), structs.IsKind(err, structs.KindNotFound):
		return true // the next look finds the new state
	case ctx.Err() == nil:
		l.Logger.Warn("failed to launch a periodic job, retrying", "job_id", d.job.ID,
			"namespace", d.job.Namespace, "error", err)
	}

	return false
}

// awaitChange returns at a change of what tx has read, at a time if it is not zero, or when ctx ends.
func (l periodicLoop) awaitChange(ctx context.Context, tx *state.ReadTx, until time.Time) {
	if !until.IsZero() {
		limited, cancel := context.WithTimeout(ctx, max(time.Millisecond, time.Until(until)))
		defer cancel()
		ctx = limited
	}
	_ = l.Store.Wait(ctx, tx) // a change, the time or the end: each requires a new look
}
