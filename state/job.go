package state

import (
	"cmp"
	"iter"
	"slices"

	"berth/internal/codec"
	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/sharing"
	"berth/state/unblock"
	"berth/structs"
)

// keptVersions is the number of versions before the current one that stay although no allocation uses them.
const keptVersions = 6

// Job returns the current version of a job, nil if there is none.
func Job(tx Reader, ns, id string) *structs.Job {
	return schema.Jobs.Get(tx, ns, id)
}

// EndedJobs yields the jobs of which nothing will run any more, by the time at which they became dead. None
// ended before that time: see JobEnd.
func EndedJobs(tx Reader) iter.Seq[*structs.Job] {
	return schema.JobsByEnd.Scan(tx)
}

// JobEnd returns when the last that belongs to a job ended: one of its allocations or evaluations, or the job
// itself by its stop. A job that was submitted later, and has run nothing since, ended with that.
func JobEnd(tx Reader, j *structs.Job) int64 {
	end := max(j.SubmitTime, j.EndTime)
	for a := range AllocsByJob(tx, j.Namespace, j.ID) {
		end = max(end, a.ModifyTime)
	}
	for e := range EvalsByJob(tx, j.Namespace, j.ID) {
		end = max(end, e.ModifyTime)
	}
	return end
}

// JobVersion returns the job as it was in a version, nil if the state no longer has the version.
func JobVersion(tx Reader, ns, id string, version uint64) *structs.Job {
	return schema.JobVersions.Get(tx, ns, id, mvcc.Ordered(version))
}

// JobOf returns the version of the job that an allocation runs, nil if the state no longer has it.
func JobOf(tx Reader, a *structs.Allocation) *structs.Job {
	return JobVersion(tx, structs.NamespaceOr(a.Namespace),
		a.JobID, a.JobVersion)
}

// JobVersions yields the stored versions of a job, oldest first.
func JobVersions(tx Reader, ns, id string) iter.Seq[*structs.Job] {
	return schema.JobVersions.Scan(tx, ns, id)
}

// JobSummary counts the job's allocations by group and state. Queued is the number that the newest evaluation
// could not place.
func JobSummary(tx Reader, j *structs.Job) *structs.JobSummary {
	s := &structs.JobSummary{
		JobID:       j.ID,
		Namespace:   j.Namespace,
		Summary:     map[string]structs.TaskGroupSummary{},
		Children:    childrenOf(tx, j),
		CreateIndex: j.CreateIndex,
		ModifyIndex: j.ModifyIndex,
	}

	for _, g := range j.TaskGroups {
		s.Summary[g.Name] = structs.TaskGroupSummary{}
	}

	for a := range AllocsByJob(tx, j.Namespace, j.ID) {
		if a.CreateIndex < j.CreateIndex && a.ClientTerminal() {
			continue // of a job that had the ID before and was purged
		}

		g := s.Summary[a.TaskGroup]
		countAlloc(&g, a)
		s.Summary[a.TaskGroup] = g
		s.ModifyIndex = max(s.ModifyIndex, a.ModifyIndex)
	}

	newest := newestOfWholeJob(tx, j)
	if newest != nil && !j.Stop {
		for name, n := range newest.QueuedAllocations {
			g := s.Summary[name]
			g.Queued = n
			s.Summary[name] = g
		}
	}

	return s
}

// newestOfWholeJob returns the newest evaluation that knows all that is left to place, nil if there is none.
func newestOfWholeJob(tx Reader, j *structs.Job) (newest *structs.Evaluation) {
	for e := range EvalsByJob(tx, j.Namespace, j.ID) {
		if e.Status == structs.EvalCancelled || ofOneNode(e) {
			continue // another evaluation places the rest
		}

		if newest == nil || e.ModifyIndex >= newest.ModifyIndex {
			newest = e
		}
	}

	return newest
}

func countAlloc(g *structs.TaskGroupSummary, a *structs.Allocation) {
	switch a.ClientStatus {
	case structs.AllocPending:
		if !a.ServerTerminal() {
			g.Starting++
		}
	case structs.AllocRunning:
		g.Running++
	case structs.AllocComplete:
		g.Complete++
	case structs.AllocFailed:
		g.Failed++
	case structs.AllocLost:
		g.Lost++
	case structs.AllocUnknown:
		g.Unknown++
	}
}

// JobRegister creates or updates a job. A specification that equals the stored one makes no new version,
// unless the deployment of the stored one has failed: then another deployment tries it again. The evaluation
// of the request is put with it.
func JobRegister(tx *WriteTx, p *structs.JobRegisterRequest) error {
	if p.Job == nil ||
		p.Job.ID == "" ||
		!schema.WholeGroups(p.Job) {
		return structs.Invalidf("a job needs an ID, and its groups and tasks must not be empty")
	}

	j := p.Job.Copy()
	j.Namespace = structs.NamespaceOr(j.Namespace)
	j.Priority = cmp.Or(j.Priority, structs.JobDefaultPriority)
	j.Type = cmp.Or(j.Type, structs.JobService)
	old := Job(tx, j.Namespace, j.ID)
	err := CheckRegistration(tx, p, j)
	if err != nil {
		return err
	}

	if old != nil {
		j.SetParent(old)
	}

	// This comes before the comparison: a request that differs only in its counts makes no version.
	if old != nil && p.PreserveCounts {
		keepCounts(j, old)
	}

	if old == nil || !sameSpec(old, j) || deploymentFailed(tx, old) {
		putJobVersion(tx, j, old, p.Now)
	} else {
		j = old
	}

	err = csi.FollowJob(tx, j, p.Now)
	if err != nil {
		return err
	}

	putSubmission(tx, p.Submission, j)
	noteScaling(tx, p, old, j)
	putGivenEval(tx, p.Eval, j, p.Now)
	refreshJobStatus(tx, structs.JobKey{Namespace: j.Namespace, ID: j.ID}, p.Now)
	return nil
}

// CheckRegistration returns an error if the state has another version of the job than the request expects, or
// does not take the job. j is the job of the request with its defaults.
func CheckRegistration(tx Reader, p *structs.JobRegisterRequest, j *structs.Job) error {
	old := Job(tx, j.Namespace, j.ID)
	err := checkJobIndex(old, p)
	if err == nil {
		err = namespace.CheckJob(tx, j)
	}
	if err == nil {
		err = csi.CheckJobVolumes(tx, j)
	}
	if err != nil || old == nil {
		return err
	}
	changed := j.Copy()
	changed.SetParent(old)
	return old.CheckChange(changed)
}

// WithKeptCounts returns a job with the counts that its groups keep if it is registered with PreserveCounts.
func WithKeptCounts(tx Reader, j *structs.Job) *structs.Job {
	old := Job(tx, j.Namespace, j.ID)
	if old == nil {
		return j
	}
	kept := j.Copy()
	keepCounts(kept, old)
	return kept
}

// keepCounts gives the groups of a job the counts that they have in another version of it, as far as their
// scaling policies allow.
func keepCounts(j, stored *structs.Job) {
	for i, g := range j.TaskGroups {
		old := stored.Group(g.Name)
		if old != nil && old.Count != g.Count {
			kept := *g
			kept.Count = g.Scaling.Nearest(old.Count)
			j.TaskGroups[i] = &kept
		}
	}
}

func checkJobIndex(old *structs.Job, p *structs.JobRegisterRequest) error {
	switch {
	case !p.EnforceIndex:
		return nil
	case old == nil && p.JobModifyIndex != 0:
		return structs.Conflictf("Enforcing job modify index %d: job %q does not exist", p.JobModifyIndex, p.Job.ID)
	case old != nil && p.JobModifyIndex == 0:
		return structs.Conflictf("Enforcing job modify index 0: job %q exists already", p.Job.ID)
	case old != nil && p.JobModifyIndex != old.JobModifyIndex:
		return structs.Conflictf("Enforcing job modify index %d: job %q has changed, its index is %d",
			p.JobModifyIndex, p.Job.ID, old.JobModifyIndex)
	}
	return nil
}

// sameSpec compares the fields that users write. It ignores the fields of the servers.
func sameSpec(a, b *structs.Job) bool {
	x := *a
	y := *b
	x.DropServerFields()
	y.DropServerFields()
	return codec.SameBytes(&x, &y)
}

// putJobVersion stores j as the newest version. The numbers continue after a purge and a new registration,
// because allocations of the former job have versions too. The deployment of an older version ends.
func putJobVersion(tx *WriteTx, j, old *structs.Job, now int64) {
	j.Version = 0
	for v := range JobVersions(tx, j.Namespace, j.ID) {
		j.Version = v.Version + 1
	}

	j.JobModifyIndex = tx.Index
	j.SubmitTime = now
	j.EndTime = 0
	j.Status = structs.JobPending
	j.Stable = false
	j.VersionTag = nil

	// The callers put the evaluation, and refresh the status after that.
	if old != nil {
		j.Status = old.Status
	}

	sharing.Job(j)
	v := *j // rows never change, so the two share all parts
	followSchedule(tx, j, old, now)
	schema.Jobs.Put(tx, j)
	schema.JobVersions.Put(tx, &v)
	if old != nil && j.Priority < old.Priority && SchedulerConfig(tx).PreemptionConfig.Any() {
		unblock.Preemption(tx) // other jobs may displace its allocations now
	}

	// After the puts the active deployment is of an older version, and the oldest versions are surplus.
	cancelDeployments(tx, j, now)
	pruneVersions(tx, j.Namespace, j.ID)
}

// pruneVersions deletes the old versions that no allocation uses, and their deployments. It keeps the newest
// stable version, and those with tags. If the job is gone, all its versions are old.
func pruneVersions(tx *WriteTx, ns, id string) {
	j := Job(tx, ns, id)
	kept := 0
	if j != nil {
		kept = keptVersions + 1
	}

	versions := slices.Collect(JobVersions(tx, ns, id))
	if len(versions) <= kept {
		return // as at most registrations
	}

	used := map[uint64]bool{}
	for a := range AllocsByJob(tx, ns, id) {
		used[a.JobVersion] = true
	}

	if j != nil {
		keepTagged(tx, j, used)
		if stable := NewestStable(tx, j); stable != nil {
			used[stable.Version] = true
		}
	}

	for n, v := range versions {
		if len(versions)-n > kept && !used[v.Version] {
			schema.JobVersions.Delete(tx, v)
			dropSubmission(tx, v)
			dropDeployments(tx, v)
		}
	}
}

// putGivenEval puts the evaluation that a server made for a change of the job.
func putGivenEval(tx *WriteTx, e *structs.Evaluation, j *structs.Job, now int64) {
	if e == nil {
		return
	}
	e = stampEval(e, now)
	e.Namespace = j.Namespace
	e.JobID = j.ID
	e.JobModifyIndex = j.JobModifyIndex
	e.Type = cmp.Or(e.Type, j.Type)
	e.Priority = cmp.Or(e.Priority, j.Priority)
	putEval(tx, e)
}

// JobDeregister stops a job. Purge deletes it at once. The versions that its allocations use stay until those
// are gone. None of them stays stable, so that no later job with the same ID goes back to one.
func JobDeregister(tx *WriteTx, p *structs.JobDeregisterRequest) error {
	old := Job(tx, p.RequestNamespace(), p.JobID)
	if old == nil {
		return structs.NotFoundf("no job %q in namespace %q", p.JobID, p.RequestNamespace())
	}

	j := old
	if !old.Stop {
		j = old.Copy()
		j.Stop = true
		putJobVersion(tx, j, old, p.Now)
	}

	// cancelBlocked spares the evaluation of its argument. This one has no ID, so it spares none.
	noEval := &structs.Evaluation{Namespace: j.Namespace, JobID: j.ID, ModifyTime: p.Now}
	cancelBlocked(tx, noEval, "job "+j.ID+" was stopped")
	if p.NoShutdownDelay {
		skipDelays(tx, j, p.Now)
	}

	if p.Purge {
		deleteJob(tx, j, p.Now)
		forgetVersions(tx, j)
	}

	putGivenEval(tx, p.Eval, j, p.Now)
	refreshJobStatus(tx, structs.JobKey{Namespace: j.Namespace, ID: j.ID}, p.Now)
	return nil
}

// deleteJob deletes a job with its rows in other tables, apart from the versions that its allocations use.
func deleteJob(tx *WriteTx, j *structs.Job, now int64) {
	dropSchedule(tx, j)
	dropScalingEvents(tx, j)
	schema.Jobs.Delete(tx, j)
	csi.PurgeJobVolumes(tx, j, now)
	csi.DropHostClaimsOfJob(tx, j)
	pruneVersions(tx, j.Namespace, j.ID)
}

// refreshJobStatus updates a job's status from its allocations and evaluations after a change at a time. The
// time becomes the end of a job that is dead with this change.
func refreshJobStatus(tx *WriteTx, key structs.JobKey, at int64) {
	j := Job(tx, key.Namespace, key.ID)
	if j == nil {
		return
	}
	status := jobStatus(tx, j)
	if status == j.Status {
		return
	}
	j = j.Copy()
	j.Status = status
	j.EndTime = 0
	if status == structs.JobDead {
		j.EndTime = at
	}
	schema.Jobs.Put(tx, j)
}

// jobStatus returns running while an allocation should run and has not ended, pending while an evaluation is
// open, and dead after that. A system job that is not stopped is running also without a node for it. A job
// without allocations and evaluations keeps its status.
func jobStatus(tx Reader, j *structs.Job) string {
	switch {
	case schema.AllocsByJob.Has(tx, j.Namespace, j.ID, schema.LiveRow):
		return structs.JobRunning
	case schema.EvalsByJob.Has(tx, j.Namespace, j.ID, schema.OpenEval):
		return structs.JobPending
	case j.Stop:
		return structs.JobDead
	case j.StartsOthers() && j.ParentID == "":
		return structs.JobRunning
	case j.Type == structs.JobSystem &&
		schema.EvalsByJob.Has(tx, j.Namespace, j.ID):
		return structs.JobRunning
	case schema.EvalsByJob.Has(tx, j.Namespace, j.ID),
		schema.AllocsByJob.Has(tx, j.Namespace, j.ID):
		return structs.JobDead
	}
	return cmp.Or(j.Status, structs.JobPending)
}
