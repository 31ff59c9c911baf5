package schema

import (
	"berth/internal/mvcc"
	"berth/state/sharing"
	"berth/structs"
	"berth/structs/capacity"
)

var (
	// Jobs has the current versions of the jobs by namespace and ID.
	Jobs = mvcc.NewTable("jobs", func(j *structs.Job) mvcc.Key {
		return mvcc.KeyOf(j.Namespace, j.ID)
	}).Require(WholeGroups)

	// Jobs by their last change.
	JobsByChange = Jobs.UniqueIndex("change", func(j *structs.Job) mvcc.Key {
		return mvcc.KeyOf(mvcc.Ordered(j.ModifyIndex), j.Namespace, j.ID)
	})

	// Jobs that run on every node.
	JobsPerNode = Jobs.Index("per_node", func(j *structs.Job) mvcc.Key {
		return mvcc.KeyIf(j.PerNode() && !j.StartsOthers(), j.Type)
	})

	// Children by the job that has started them.
	JobsByParent = Jobs.Index("parent", func(j *structs.Job) mvcc.Key {
		return mvcc.KeyIf(j.ParentID != "", j.Namespace, j.ParentID)
	})

	// Children by the tokens of their dispatches.
	JobsByToken = Jobs.Index("token", func(j *structs.Job) mvcc.Key {
		return mvcc.KeyIf(j.DispatchIdempotencyToken != "", j.Namespace, j.ParentID,
			j.DispatchIdempotencyToken)
	})

	// Jobs by the IDs of the scaling policies of their groups.
	JobsByPolicy = Jobs.MultiIndex("scaling_policy", func(j *structs.Job) []mvcc.Key {
		if !j.HasScaling() {
			return nil
		}
		var keys []mvcc.Key
		for _, p := range j.ScalingPolicies() {
			keys = append(keys, mvcc.KeyOf(p.ID))
		}
		return keys
	})

	// Jobs whose schedules are on.
	PeriodicJobs = Jobs.Index("periodic", func(j *structs.Job) mvcc.Key {
		return mvcc.KeyIf(j.IsPeriodic(), j.Namespace, j.ID)
	})

	// PeriodicLaunches has the last starts of the jobs with a schedule by namespace and ID.
	PeriodicLaunches = mvcc.NewTable("periodic_launches", func(l *structs.PeriodicLaunch) mvcc.Key {
		return mvcc.KeyOf(l.Namespace, l.ID)
	})

	// Jobs of which nothing will run any more, by the time at which they ended. An older version has stored
	// no end: the submission comes before it.
	JobsByEnd = Jobs.Index("end", func(j *structs.Job) mvcc.Key {
		if j.Status != structs.JobDead || !j.Stop && !j.Finite() {
			return nil
		}
		return mvcc.KeyOf(orderedTime(max(j.SubmitTime, j.EndTime)))
	})

	// ScalingEvents has the last changes of counts by namespace, job and group.
	ScalingEvents = mvcc.NewTable("scaling_events", func(s *structs.ScalingEvents) mvcc.Key {
		return mvcc.KeyOf(s.Namespace, s.JobID, s.Group)
	})

	// JobVersions has the versions of the jobs by namespace, ID and version.
	JobVersions = mvcc.NewTable("job_versions", func(j *structs.Job) mvcc.Key {
		return mvcc.KeyOf(j.Namespace, j.ID, mvcc.Ordered(j.Version))
	}).Require(WholeGroups)

	// JobSubmissions has the sources of the versions of jobs by namespace, ID and version.
	JobSubmissions = mvcc.NewTable("job_submissions", func(s *structs.JobSubmission) mvcc.Key {
		return mvcc.KeyOf(s.Namespace, s.JobID, mvcc.Ordered(s.Version))
	})
)

var (
	// Deployments has the deployments by ID.
	Deployments = mvcc.NewTable("deployments", func(d *structs.Deployment) mvcc.Key {
		return mvcc.KeyOf(d.ID)
	})

	// A job's deployments, the newest first.
	DeploymentsByJob = Deployments.Index("job", func(d *structs.Deployment) mvcc.Key {
		return mvcc.KeyOf(d.Namespace, d.JobID, mvcc.Ordered(^d.CreateIndex))
	})

	// Deployments that have not ended.
	ActiveDeployments = Deployments.Index("active", func(d *structs.Deployment) mvcc.Key {
		return mvcc.KeyIf(d.Active(), d.Namespace, d.JobID)
	})
)

var (
	// Allocs has the allocations by ID.
	Allocs = mvcc.NewTable("allocs", func(a *structs.Allocation) mvcc.Key {
		return mvcc.KeyOf(a.ID)
	}).OnPut(sharing.Alloc).OnChange(recountAlloc)

	// AllocsByJob has the allocations of a job, the live ones (LiveRow) and the others (DoneRow), by ID.
	AllocsByJob = Allocs.UniqueIndex("job", func(a *structs.Allocation) mvcc.Key {
		return mvcc.KeyOf(a.Namespace, a.JobID, liveOrDone(a.Terminal()), a.ID)
	})

	// Allocations that hold the capacity, the devices and the host volumes of their node: until the node
	// reports the end. A node has few of them.
	HoldersByNode = Allocs.ListIndex("node", func(a *structs.Allocation) mvcc.Key {
		switch {
		case a.ClientTerminal():
			return nil
		case a.ServerTerminal():
			return mvcc.KeyOf(a.NodeID, endingRow, a.ID)
		}
		return mvcc.KeyOf(a.NodeID, LiveRow, a.ID)
	})

	// Allocations whose end their node has reported.
	EndedByNode = Allocs.UniqueIndex("node_ended", func(a *structs.Allocation) mvcc.Key {
		return mvcc.KeyIf(a.ClientTerminal(), a.NodeID, a.ID)
	})

	// Allocations that no longer run a task, by the time of their last change.
	AllocsByEnd = Allocs.UniqueIndex("end", func(a *structs.Allocation) mvcc.Key {
		if !a.ClientTerminal() {
			return nil
		}
		return mvcc.KeyOf(orderedTime(a.ModifyTime), a.ID)
	})

	// Allocations that have ports of their node. An allocation has them until its node reports the end.
	AllocsByPorts = Allocs.UniqueIndex("ports", func(a *structs.Allocation) mvcc.Key {
		has := len(a.Ports) > 0 && !a.ClientTerminal()
		return mvcc.KeyIf(has, a.NodeID, a.ID)
	})

	// Allocations by the plugins that they run. An allocation is live until its node reports the end, because
	// a plugin that is being stopped serves until then.
	AllocsByPlugin = Allocs.MultiIndex("plugin", func(a *structs.Allocation) []mvcc.Key {
		var keys []mvcc.Key
		for _, id := range a.CSIPlugins {
			key := mvcc.KeyOf(id, liveOrDone(a.ClientTerminal()))
			keys = append(keys, key)
		}
		return keys
	})

	// Live allocations by the volumes that they are placed to use, class by class. Most of them have claims,
	// which the claim queue of the volume has. This index finds the few others.
	AllocsByVolume = Allocs.MultiIndex("volume", func(a *structs.Allocation) []mvcc.Key {
		if len(a.CSIVolumes) == 0 || a.Terminal() {
			return nil
		}
		keys := make([]mvcc.Key, len(a.CSIVolumes))
		for i := range a.CSIVolumes {
			u := &a.CSIVolumes[i]
			keys[i] = mvcc.KeyOf(a.Namespace,
				u.VolumeID, ClassKey(u.Class()))
		}
		return keys
	})

	// Allocations by the services that others may find.
	AllocsByService = Allocs.MultiIndex("service", func(a *structs.Allocation) []mvcc.Key {
		if !a.Offered() {
			return nil
		}
		var keys []mvcc.Key
		for name := range a.ServiceNames() {
			keys = append(keys, mvcc.KeyOf(a.Namespace, name))
		}
		return keys
	})
)

// The sums over the allocations of each node that hold something of it.
var NodeUses = mvcc.SumLists(HoldersByNode,
	func(a *structs.Allocation) string { return a.NodeID }, capacity.NodeUseOf)

// The numbers of allocations that each evaluation has placed for its job.
var EvalAllocs = mvcc.NewTable("eval_allocs", func(r *EvalAllocsRow) mvcc.Key {
	return mvcc.KeyOf(r.EvalID, r.Namespace, r.JobID)
}).Computed()

var (
	// Evals has the evaluations by ID.
	Evals = mvcc.NewTable("evals", func(e *structs.Evaluation) mvcc.Key {
		return mvcc.KeyOf(e.ID)
	}).OnPut(sharing.Eval)

	// Ended evaluations by the node that caused them and by their retention. Open evaluations by their status
	// and the node, except that those with a time have a status of their own.
	EvalsByJob = Evals.Index("job", func(e *structs.Evaluation) mvcc.Key {
		switch {
		case e.Terminal():
			return mvcc.KeyOf(e.Namespace, e.JobID, DoneEval, e.NodeID, retention(e))
		case e.Status == structs.EvalPending && e.WaitUntil > 0:
			return mvcc.KeyOf(e.Namespace, e.JobID, OpenEval, LaterEval)
		}
		return mvcc.KeyOf(e.Namespace, e.JobID, OpenEval, e.Status, e.NodeID)
	})

	// The order of the leader's work: pending evaluations by priority and age, evaluations with a time by
	// that time, and ended evaluations that no allocation names by their end, for the deletion.
	EvalsInOrder = Evals.Index("turn", func(e *structs.Evaluation) mvcc.Key {
		switch {
		case e.Terminal() && e.Placed:
			return nil
		case e.Terminal():
			return mvcc.KeyOf(DoneEval, orderedTime(e.ModifyTime))
		case e.Status == structs.EvalPending && e.WaitUntil > 0:
			return mvcc.KeyOf(LaterEval, orderedTime(e.WaitUntil))
		case e.Status == structs.EvalPending:
			return mvcc.KeyOf(OpenEval, byPriority(e), mvcc.Ordered(e.CreateIndex))
		}
		return nil
	})

	// The queues of blocked evaluations, by key, priority and shape (see package unblock).
	EvalsByBlocked = Evals.MultiIndex("blocked_on", func(e *structs.Evaluation) []mvcc.Key {
		if !IsQueued(e) {
			return nil
		}
		var keys []mvcc.Key
		for _, k := range e.BlockedOn {
			keys = append(keys, mvcc.KeyOf(k, QueueKey(e), mvcc.Ordered(e.CreateIndex)))
		}
		return keys
	})

	// Unblocks has the last unblock of each key of blocked evaluations.
	Unblocks = mvcc.NewTable("wakes", func(w *structs.UnblockRow) mvcc.Key {
		return mvcc.KeyOf(w.Key)
	})

	// Keys whose unblock has not reached all queues yet.
	UnblocksDue = Unblocks.Index("due", func(w *structs.UnblockRow) mvcc.Key {
		return mvcc.KeyIf(w.Due, "due")
	})
)
