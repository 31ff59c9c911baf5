package state

import (
	"iter"

	"berth/internal/codec"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// PeriodicLaunch returns the last launch of a periodic job, nil if the job has no schedule.
func PeriodicLaunch(tx Reader, ns, id string) *structs.PeriodicLaunch {
	return schema.PeriodicLaunches.Get(tx, ns, id)
}

// PeriodicJobs yields the jobs whose schedules are on.
func PeriodicJobs(tx Reader) iter.Seq[*structs.Job] {
	return schema.PeriodicJobs.Scan(tx)
}

// ChildJobs yields the children of a job.
func ChildJobs(tx Reader, ns, parent string) iter.Seq[*structs.Job] {
	return schema.JobsByParent.Scan(tx, ns, parent)
}

// DispatchedJob returns the child that a dispatch with a token has started, nil if there is none.
func DispatchedJob(tx Reader, ns, parent, token string) *structs.Job {
	return schema.JobsByToken.First(tx, ns, parent, token)
}

// HasLiveChild reports whether a child of the job has not ended.
func HasLiveChild(tx Reader, j *structs.Job) bool {
	for child := range ChildJobs(tx, j.Namespace, j.ID) {
		if child.Status != structs.JobDead {
			return true
		}
	}
	return false
}

// childrenOf counts the children of a job by status. It is nil for a job that starts no others.
func childrenOf(tx Reader, j *structs.Job) *structs.JobChildrenSummary {
	if !j.StartsOthers() {
		return nil
	}
	s := &structs.JobChildrenSummary{}
	for child := range ChildJobs(tx, j.Namespace, j.ID) {
		switch child.Status {
		case structs.JobPending:
			s.Pending++
		case structs.JobRunning:
			s.Running++
		default:
			s.Dead++
		}
	}
	return s
}

// JobDispatch registers a child of a parameterized job with its evaluation.
func JobDispatch(tx *WriteTx, p *structs.JobDispatchRequest) error {
	parent := Job(tx, p.RequestNamespace(), p.JobID)
	switch {
	case p.Child == nil || p.Child.ID == "" || !schema.WholeGroups(p.Child):
		return structs.Invalidf("a dispatch needs its child")
	case parent == nil:
		return structs.NotFoundf("no job %q in namespace %q", p.JobID, p.RequestNamespace())
	case parent.JobModifyIndex != p.JobModifyIndex:
		return structs.Conflictf("job %q has changed since the dispatch began", p.JobID)
	}

	// A repeated dispatch has no effect: the caller finds the child by the token.
	token := p.IdempotencyToken
	if token != "" && DispatchedJob(tx, parent.Namespace, parent.ID, token) != nil {
		return nil
	}
	return putChild(tx, parent, childRequest{p.Child, p.Eval, p.Now})
}

// JobPeriodicLaunch records a launch of a periodic job, and registers the child with its evaluation. A last
// launch in the future (clustertime.Future) does not count.
func JobPeriodicLaunch(tx *WriteTx, p *structs.PeriodicLaunchRequest) error {
	ns := p.RequestNamespace()
	parent := Job(tx, ns, p.ParentID)
	last := PeriodicLaunch(tx, ns, p.ParentID)
	if p.Child != nil && !schema.WholeGroups(p.Child) {
		return structs.Invalidf("a launch needs its whole child")
	}

	switch {
	case parent == nil, last == nil:
		return structs.NotFoundf("no periodic job %q in namespace %q", p.ParentID, ns)
	case parent.JobModifyIndex != p.JobModifyIndex:
		return structs.Conflictf("job %q has changed since the launch began", p.ParentID)
	case p.Launch <= last.Launch && !clustertime.Future(tx, last.Launch, p.Now):
		return structs.Conflictf("job %q has been launched at this time or later", p.ParentID)
	}

	row := *last
	row.Launch = p.Launch
	schema.PeriodicLaunches.Put(tx, &row)
	if p.Child == nil || Job(tx, ns, p.Child.ID) != nil {
		return nil // it is skipped, or a launch in the same second has made its child
	}

	return putChild(tx, parent, childRequest{p.Child, p.Eval, p.Now})
}

// childRequest has the parts of a request that start a child.
type childRequest struct {
	job  *structs.Job
	eval *structs.Evaluation
	now  int64
}

func putChild(tx *WriteTx, parent *structs.Job, r childRequest) error {
	if Job(tx, parent.Namespace, r.job.ID) != nil {
		return structs.Conflictf("job %q exists already", r.job.ID)
	}
	child := storage.JobWithSources(r.job)
	child.Namespace = parent.Namespace
	child.ParentID = parent.ID
	putJobVersion(tx, child, nil, r.now)
	putGivenEval(tx, r.eval, child, r.now)
	refreshJobStatus(tx, structs.JobKey{Namespace: child.Namespace, ID: child.ID}, r.now)
	return nil
}

// followSchedule keeps the row of the last launch of a job that was put. A new schedule begins with its
// registration.
func followSchedule(tx *WriteTx, j, old *structs.Job, now int64) {
	row := PeriodicLaunch(tx, j.Namespace, j.ID)
	switch {
	case !j.IsPeriodic():
		dropSchedule(tx, j)
	case row == nil, old == nil, !sameSchedule(j.Periodic, old.Periodic):
		schema.PeriodicLaunches.Put(tx, &structs.PeriodicLaunch{
			Namespace: j.Namespace,
			ID:        j.ID,
			Launch:    clustertime.Wall(tx, now),
		})
	}
}

func sameSchedule(a, b *structs.PeriodicConfig) bool {
	return b != nil && codec.SameBytes(a, b)
}

func dropSchedule(tx *WriteTx, j *structs.Job) {
	row := PeriodicLaunch(tx, j.Namespace, j.ID)
	if row != nil {
		schema.PeriodicLaunches.Delete(tx, row)
	}
}

// JobRevert makes an earlier version of a job the newest one.
func JobRevert(tx *WriteTx, p *structs.JobRevertRequest) error {
	current, version, err := CheckRevert(tx, p)
	if err != nil {
		return err
	}
	j := revertJob(tx, current, version, p.Now)
	err = csi.FollowJob(tx, j, p.Now)
	if err != nil {
		return err
	}

	putGivenEval(tx, p.Eval, j, p.Now)
	refreshJobStatus(tx, structs.JobKey{Namespace: j.Namespace, ID: j.ID}, p.Now)
	return nil
}

// CheckRevert returns the current version of a job and the one that it is to have again, or the reason for
// which it cannot have it.
func CheckRevert(tx Reader, p *structs.JobRevertRequest) (current, version *structs.Job, err error) {
	ns := p.RequestNamespace()
	current = Job(tx, ns, p.JobID)
	version = JobVersion(tx, ns, p.JobID, p.JobVersion)
	prior := p.EnforcePriorVersion
	switch {
	case current == nil:
		err = structs.NotFoundf("no job %q in namespace %q", p.JobID, ns)
	case prior != nil && *prior != current.Version:
		err = structs.Conflictf("enforcing version %d: job %q is at version %d", *prior, p.JobID, current.Version)
	case p.JobVersion == current.Version:
		err = structs.Invalidf("job %q is at version %d already", p.JobID, current.Version)
	case version == nil:
		err = NoVersion(ns, p.JobID, p.JobVersion)
	default:
		err = current.CheckChange(version)
	}

	if err == nil {
		err = namespace.CheckJob(tx, version)
	}
	if err == nil {
		err = csi.CheckJobVolumes(tx, version)
	}

	return current, version, err
}

// checkSchedules checks that exactly the jobs with a schedule have a last launch.
func checkSchedules(c *schema.Report) {
	for l := range schema.PeriodicLaunches.Scan(c) {
		j := Job(c, l.Namespace, l.ID)
		c.Want(j != nil && j.IsPeriodic(), "launch of job %s/%s: the job has no schedule", l.Namespace, l.ID)
	}
	for j := range PeriodicJobs(c) {
		c.Want(PeriodicLaunch(c, j.Namespace, j.ID) != nil, "job %s/%s: no launch follows its schedule",
			j.Namespace, j.ID)
	}
}
