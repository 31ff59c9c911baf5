package state

import (
	"berth/internal/mvcc"
	"berth/state/sharing"
	"berth/structs"
)

var (
	// jobs has the current versions of the jobs by namespace and ID.
	jobs = mvcc.NewTable("jobs", func(j *structs.Job) Key {
		return mvcc.KeyOf(j.Namespace, j.ID)
	}).Require(wholeGroups)

	// Jobs that run on every node.
	jobsPerNode = jobs.Index("per_node", func(j *structs.Job) Key {
		return mvcc.KeyIf(j.PerNode() && !j.StartsOthers(), j.Type)
	})

	// Children by the job that has started them.
	jobsByParent = jobs.Index("parent", func(j *structs.Job) Key {
		return mvcc.KeyIf(j.ParentID != "", j.Namespace, j.ParentID)
	})

	// Children by the tokens of their dispatches.
	jobsByToken = jobs.Index("token", func(j *structs.Job) Key {
		return mvcc.KeyIf(j.DispatchIdempotencyToken != "", j.Namespace, j.ParentID, j.DispatchIdempotencyToken)
	})

	// Jobs by the IDs of the scaling policies of their groups.
	jobsByPolicy = jobs.MultiIndex("scaling_policy", func(j *structs.Job) []Key {
		if !j.HasScaling() {
			return nil
		}
		var keys []Key
		for _, p := range j.ScalingPolicies() {
			keys = append(keys, mvcc.KeyOf(p.ID))
		}
		return keys
	})

	// Jobs whose schedules are on.
	periodicJobs = jobs.Index("periodic", func(j *structs.Job) Key {
		return mvcc.KeyIf(j.IsPeriodic(), j.Namespace, j.ID)
	})

	// periodicLaunches has the last starts of the jobs with a schedule by namespace and ID.
	periodicLaunches = mvcc.NewTable("periodic_launches", func(l *structs.PeriodicLaunch) Key {
		return mvcc.KeyOf(l.Namespace, l.ID)
	})

	// Jobs of which nothing will run any more, by the time of their submission.
	jobsByEnd = jobs.Index("end", func(j *structs.Job) Key {
		if j.Status != structs.JobDead || !j.Stop && !j.Finite() {
			return nil
		}
		return mvcc.KeyOf(orderedTime(j.SubmitTime))
	})

	// scalingEvents has the last changes of counts by namespace, job and group.
	scalingEvents = mvcc.NewTable("scaling_events", func(s *structs.ScalingEvents) Key {
		return mvcc.KeyOf(s.Namespace, s.JobID, s.Group)
	})

	// jobVersions has the versions of the jobs by namespace, ID and version.
	jobVersions = mvcc.NewTable("job_versions", func(j *structs.Job) Key {
		return mvcc.KeyOf(j.Namespace, j.ID, mvcc.Ordered(j.Version))
	}).Require(wholeGroups)

	// jobSubmissions has the sources of the versions of jobs by namespace, ID and version.
	jobSubmissions = mvcc.NewTable("job_submissions", func(s *structs.JobSubmission) Key {
		return mvcc.KeyOf(s.Namespace, s.JobID, mvcc.Ordered(s.Version))
	})
)

var (
	// deployments has the deployments by ID.
	deployments = mvcc.NewTable("deployments", func(d *structs.Deployment) Key {
		return mvcc.KeyOf(d.ID)
	})

	// A job's deployments, the newest first.
	deploymentsByJob = deployments.Index("job", func(d *structs.Deployment) Key {
		return mvcc.KeyOf(d.Namespace, d.JobID, mvcc.Ordered(^d.CreateIndex))
	})

	// Deployments that have not ended.
	activeDeployments = deployments.Index("active", func(d *structs.Deployment) Key {
		return mvcc.KeyIf(d.Active(), d.Namespace, d.JobID)
	})
)

var (
	// allocs has the allocations by ID.
	allocs = mvcc.NewTable("allocs", func(a *structs.Allocation) Key {
		return mvcc.KeyOf(a.ID)
	}).OnPut(sharing.Alloc).OnChange(recountEvalAllocs)

	// allocsByJob has the allocations of a job, the live ones (liveRow) and the others (doneRow), by ID.
	allocsByJob = allocs.UniqueIndex("job", func(a *structs.Allocation) Key {
		return mvcc.KeyOf(a.Namespace, a.JobID, liveOrDone(a.Terminal()), a.ID)
	})

	// Allocations that hold the capacity, the devices and the host volumes of their node: until the node reports
	// the end. A node has few of them.
	holdersByNode = allocs.ListIndex("node", func(a *structs.Allocation) Key {
		switch {
		case a.ClientTerminal():
			return nil
		case a.ServerTerminal():
			return mvcc.KeyOf(a.NodeID, endingRow, a.ID)
		}
		return mvcc.KeyOf(a.NodeID, liveRow, a.ID)
	})

	// Allocations whose end their node has reported.
	endedByNode = allocs.UniqueIndex("node_ended", func(a *structs.Allocation) Key {
		return mvcc.KeyIf(a.ClientTerminal(), a.NodeID, a.ID)
	})

	// Allocations that no longer run a task, by the time of their last change.
	allocsByEnd = allocs.UniqueIndex("end", func(a *structs.Allocation) Key {
		if !a.ClientTerminal() {
			return nil
		}
		return mvcc.KeyOf(orderedTime(a.ModifyTime), a.ID)
	})

	// Allocations that have ports of their node. An allocation has them until its node reports the end.
	allocsByPorts = allocs.UniqueIndex("ports", func(a *structs.Allocation) Key {
		has := len(a.Ports) > 0 && !a.ClientTerminal()
		return mvcc.KeyIf(has, a.NodeID, a.ID)
	})

	// Allocations by the plugins that they run. An allocation is live until its node reports the end, because a
	// plugin that is being stopped serves until then.
	allocsByPlugin = allocs.MultiIndex("plugin", func(a *structs.Allocation) []Key {
		var keys []Key
		for _, id := range a.CSIPlugins {
			key := mvcc.KeyOf(id, liveOrDone(a.ClientTerminal()))
			keys = append(keys, key)
		}
		return keys
	})

	// Live allocations by the volumes that they are placed to use, class by class. Most of them have claims,
	// which the claim queue of the volume has. This index finds the few others.
	allocsByVolume = allocs.MultiIndex("volume", func(a *structs.Allocation) []Key {
		if len(a.CSIVolumes) == 0 || a.Terminal() {
			return nil
		}
		keys := make([]Key, len(a.CSIVolumes))
		for i := range a.CSIVolumes {
			u := &a.CSIVolumes[i]
			keys[i] = mvcc.KeyOf(a.Namespace,
				u.VolumeID, classKey(u.Class()))
		}
		return keys
	})

	// Allocations by the services that others may find.
	allocsByService = allocs.MultiIndex("service", func(a *structs.Allocation) []Key {
		if !a.Offered() {
			return nil
		}
		var keys []Key
		for name := range a.ServiceNames() {
			keys = append(keys, mvcc.KeyOf(a.Namespace, name))
		}
		return keys
	})
)

// The sums over the allocations of each node that hold something of it.
var nodeUses = mvcc.SumLists(holdersByNode,
	func(a *structs.Allocation) string { return a.NodeID }, structs.NodeUseOf)

// The numbers of allocations that each evaluation has placed for its job.
var evalAllocs = mvcc.NewTable("eval_allocs", func(r *evalAllocsRow) Key {
	return mvcc.KeyOf(r.EvalID, r.Namespace, r.JobID)
}).Computed()

var (
	// evals has the evaluations by ID.
	evals = mvcc.NewTable("evals", func(e *structs.Evaluation) Key {
		return mvcc.KeyOf(e.ID)
	}).OnPut(sharing.Eval)

	// Ended evaluations by the node that caused them and by their retention. Open evaluations by their status
	// and the node, except that those with a time have a status of their own.
	evalsByJob = evals.Index("job", func(e *structs.Evaluation) Key {
		switch {
		case e.Terminal():
			return mvcc.KeyOf(e.Namespace, e.JobID, doneEval, e.NodeID, retention(e))
		case e.Status == structs.EvalPending && e.WaitUntil > 0:
			return mvcc.KeyOf(e.Namespace, e.JobID, openEval, laterEval)
		}
		return mvcc.KeyOf(e.Namespace, e.JobID, openEval, e.Status, e.NodeID)
	})

	// The order of the leader's work: pending evaluations by priority and age, evaluations with a time by that
	// time, and ended evaluations that no allocation names by their end, for the deletion.
	evalsInOrder = evals.Index("turn", func(e *structs.Evaluation) Key {
		switch {
		case e.Terminal() && e.Placed:
			return nil
		case e.Terminal():
			return mvcc.KeyOf(doneEval, orderedTime(e.ModifyTime))
		case e.Status == structs.EvalPending && e.WaitUntil > 0:
			return mvcc.KeyOf(laterEval, orderedTime(e.WaitUntil))
		case e.Status == structs.EvalPending:
			return mvcc.KeyOf(openEval, byPriority(e), mvcc.Ordered(e.CreateIndex))
		}
		return nil
	})

	// The queues of blocked evaluations, by key, priority and shape (see eval_blocked.go).
	evalsByBlocked = evals.MultiIndex("blocked_on", func(e *structs.Evaluation) []Key {
		if !isQueued(e) {
			return nil
		}
		var keys []Key
		for _, k := range e.BlockedOn {
			keys = append(keys, mvcc.KeyOf(k, queueKey(e), mvcc.Ordered(e.CreateIndex)))
		}
		return keys
	})

	// unblocks has the last unblock of each key of blocked evaluations.
	unblocks = mvcc.NewTable("wakes", func(w *structs.UnblockRow) Key {
		return mvcc.KeyOf(w.Key)
	})

	// Keys whose unblock has not reached all queues yet.
	unblocksDue = unblocks.Index("due", func(w *structs.UnblockRow) Key {
		return mvcc.KeyIf(w.Due, "due")
	})
)
