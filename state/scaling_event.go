package state

import (
	"iter"

	"berth/state/schema"
	"berth/structs"
)

// ScalingEventsOf yields the events of the groups of a job, by group.
func ScalingEventsOf(tx Reader, ns, job string) iter.Seq[*structs.ScalingEvents] {
	return schema.ScalingEvents.Scan(tx, ns, job)
}

// JobScalingEvent stores an event that changes no count.
func JobScalingEvent(tx *WriteTx, p *structs.JobScalingEventRequest) error {
	ns := structs.NamespaceOr(p.Namespace)
	j := Job(tx, ns, p.JobID)
	switch {
	case j == nil:
		return structs.NotFoundf("there is no job %s/%s", ns, p.JobID)
	case j.Group(p.Group) == nil:
		return structs.NotFoundf("job %q has no group %q", j.ID, p.Group)
	case p.Event == nil:
		return structs.Invalidf("a scaling event of job %q is missing", j.ID)
	}
	e := *p.Event
	e.Count = nil
	e.EvalID = nil
	addScalingEvent(tx, j, j.Group(p.Group), &e)
	return nil
}

// noteScaling stores the event of a registration that scales a group of old.
func noteScaling(tx *WriteTx, p *structs.JobRegisterRequest, old, now *structs.Job) {
	s := p.Scaling
	if s == nil || s.Event == nil || old == nil || old.Group(s.Group) == nil {
		return
	}
	e := *s.Event
	if p.Eval != nil {
		e.EvalID = &p.Eval.ID
	}
	addScalingEvent(tx, now, old.Group(s.Group), &e)
}

// addScalingEvent stores an event of a group of a job, which has the count of the group before it. It forgets
// the events of groups that the job has no longer, so that their number has a bound.
func addScalingEvent(tx *WriteTx, j *structs.Job, before *structs.TaskGroup, e *structs.ScalingEvent) {
	e.PreviousCount = int64(before.Count)
	e.CreateIndex = tx.Index
	row := schema.ScalingEvents.Get(tx, j.Namespace, j.ID, before.Name)
	if row == nil {
		row = &structs.ScalingEvents{Namespace: j.Namespace, JobID: j.ID, Group: before.Name}
	}
	schema.ScalingEvents.Put(tx, row.With(e))
	for other := range ScalingEventsOf(tx, j.Namespace, j.ID) {
		if j.Group(other.Group) == nil {
			schema.ScalingEvents.Delete(tx, other)
		}
	}
}

// dropScalingEvents deletes the events of a job that is deleted.
func dropScalingEvents(tx *WriteTx, j *structs.Job) {
	for row := range ScalingEventsOf(tx, j.Namespace, j.ID) {
		schema.ScalingEvents.Delete(tx, row)
	}
}

// checkScalingEvents checks that events belong to a job, and that each group has a bounded number of them.
func checkScalingEvents(c *schema.Report) {
	for row := range schema.ScalingEvents.Scan(c) {
		c.Want(Job(c, row.Namespace, row.JobID) != nil,
			"scaling events of group %q: job %s/%s is gone", row.Group, row.Namespace, row.JobID)
		n := len(row.Events)
		c.Want(n > 0 && n <= structs.MaxScalingEvents,
			"scaling events of group %q of job %s/%s: there are %d", row.Group, row.Namespace, row.JobID, n)
	}
}
