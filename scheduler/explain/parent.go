package explain

import (
	"fmt"
	"time"

	"berth/state"
	"berth/structs"
	"berth/structs/inquiry"
)

// parentJob is the reason of a job that runs nothing itself and has nothing to wait for but its next child.
func (x *jobExplainer) parentJob(j *structs.Job) *inquiry.Reason {
	if j.Periodic == nil {
		r := reason("job %s is parameterized: it runs nothing itself, and each dispatch starts a child%s",
			j.ID, x.liveChildren(j))
		r.Remedy = dispatchCommand(j)
		return r
	}

	if !j.Periodic.Enabled {
		r := reason("the schedule of job %s is disabled%s", j.ID, x.liveChildren(j))
		r.Remedy = "set enabled = true in its periodic block and run it again: " +
			command(j.Namespace, "job run", "FILE")
		return r
	}

	force := command(j.Namespace, "job periodic force", j.ID)
	next := x.nextLaunch(j)
	if next.IsZero() {
		r := reason("the schedule of job %s has no more launches%s", j.ID, x.liveChildren(j))
		r.Remedy = "change cron in its periodic block and run it again; for one launch now: " + force
		return r
	}

	r := reason("job %s waits for its next launch %s, at %s%s", j.ID, x.until(next.UnixNano()),
		next.Format(time.RFC3339), x.liveChildren(j))
	r.Remedy = "to launch a child now: " + force
	return r
}

// nextLaunch returns the time of the next launch of a periodic job, zero if there is none.
func (x *explainer) nextLaunch(j *structs.Job) time.Time {
	last := state.PeriodicLaunch(x.tx, j.Namespace, j.ID)
	if last == nil {
		return time.Time{}
	}
	next, err := j.Periodic.Next(time.Unix(0, last.Launch))
	if err != nil {
		return time.Time{}
	}
	return next
}

// overlap explains that the launches of a periodic job are skipped, because a child of it has not ended.
func (x *jobExplainer) overlap(j *structs.Job) []*inquiry.Reason {
	if !j.IsPeriodic() || !j.Periodic.Enabled || !j.Periodic.ProhibitOverlap || !state.HasLiveChild(x.tx, j) {
		return nil
	}

	r := reason("the launches of job %s are skipped until its last child has ended (prohibit_overlap)", j.ID)
	if next := x.nextLaunch(j); !next.IsZero() {
		addPassing(r, "; the next one is due ", x.until(next.UnixNano()))
	}

	var children sample
	for child := range state.ChildJobs(x.tx, j.Namespace, j.ID) {
		switch {
		case child.Status == structs.JobDead:
		case children.full():
			children.rest++
		default:
			c := reason("child %s is %s", child.ID, child.Status)
			c.Remedy = command(j.Namespace, "job why", child.ID) +
				"; to end it: " + command(j.Namespace, "job stop", child.ID)
			children.add(c)
		}
	}

	r.Because = children.list("children")
	return []*inquiry.Reason{r}
}

// liveChildren describes the number of children that have not ended, "" if all have.
func (x *jobExplainer) liveChildren(j *structs.Job) string {
	live := 0
	for child := range state.ChildJobs(x.tx, j.Namespace, j.ID) {
		if child.Status != structs.JobDead {
			live++
		}
	}

	if live == 0 {
		return ""
	}

	return fmt.Sprintf("; children that have not ended: %d", live)
}

// dispatchCommand is the command that dispatches a job with the values that it requires.
func dispatchCommand(j *structs.Job) string {
	p := j.ParameterizedJob
	verb := "job dispatch"
	for _, key := range p.MetaRequired {
		verb += " -meta " + structs.ShellWord(key) + "=VALUE"
	}
	if p.Payload == structs.PayloadRequired {
		return command(j.Namespace, verb, j.ID, "FILE")
	}
	return command(j.Namespace, verb, j.ID)
}
