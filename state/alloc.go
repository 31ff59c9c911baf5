package state

import (
	"iter"
	"maps"
	"reflect"
	"slices"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/lease"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/trust"
	"berth/state/unblock"
	"berth/structs"
)

// DoneWhenLost reports whether an allocation of a batch or sysbatch job that was lost with its node has done
// its work: the node is back, and has reported that the tasks have ended by themselves. It is not replaced.
func DoneWhenLost(tx Reader, a *structs.Allocation) bool {
	// A plan has marked it lost. Only a later report of the node makes it complete: see applyClientUpdate.
	if !a.ServerTerminal() || a.StopCause != structs.StopNodeDown || a.ClientStatus != structs.AllocComplete {
		return false
	}
	j := JobOf(tx, a)
	return j != nil && j.Finite() && j.Group(a.TaskGroup) != nil && j.Group(a.TaskGroup).WorkDone(a.TaskStates)
}

// Alloc returns the allocation without its job, nil if there is none.
func Alloc(tx Reader, id string) *structs.Allocation {
	return schema.Allocs.Get(tx, id)
}

// AllocWithJob returns a copy of the allocation with the version of the job that it was placed from.
func AllocWithJob(tx Reader, a *structs.Allocation) *structs.Allocation {
	if a == nil {
		return nil
	}
	c := *a
	c.Job = JobOf(tx, a)
	return &c
}

// AllocStubs returns a function that writes the stub of an allocation, with the type of its job. It looks up
// the job of allocations that follow each other once.
func AllocStubs(tx Reader) func(*structs.Allocation, *structs.AllocListStub) {
	jobOf := jobLookup(tx)
	return func(a *structs.Allocation, s *structs.AllocListStub) {
		a.PutStub(s)
		if job := jobOf(a); job != nil {
			s.JobType = job.Type
		}
	}
}

// jobLookup returns a function that is JobOf. It looks up the job of allocations that follow each other once.
func jobLookup(tx Reader) func(*structs.Allocation) *structs.Job {
	var job *structs.Job
	return func(a *structs.Allocation) *structs.Job {
		if job == nil || job.ID != a.JobID ||
			job.Version != a.JobVersion || job.Namespace != structs.NamespaceOr(a.Namespace) {
			job = JobOf(tx, a)
		}
		return job
	}
}

// AllocsByJob yields a job's allocations, the terminal ones first.
func AllocsByJob(tx Reader, ns, job string) iter.Seq[*structs.Allocation] {
	return schema.AllocsByJob.Scan(tx, ns, job)
}

// LiveAllocsByJob yields a job's allocations that the servers want to run and that have not ended.
func LiveAllocsByJob(tx Reader, ns, job string) iter.Seq[*structs.Allocation] {
	return schema.AllocsByJob.Scan(tx, ns, job, schema.LiveRow)
}

// AllocsByNode yields a node's allocations: the ended ones, the ones that are to end, and the live ones.
func AllocsByNode(tx Reader, node string) iter.Seq[*structs.Allocation] {
	return func(yield func(*structs.Allocation) bool) {
		for _, index := range []*mvcc.Index[*structs.Allocation]{schema.EndedByNode, schema.HoldersByNode} {
			for a := range index.Scan(tx, node) {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// LiveAllocsByNode yields a node's allocations that are not terminal.
func LiveAllocsByNode(tx Reader, node string) iter.Seq[*structs.Allocation] {
	return schema.HoldersByNode.Scan(tx, node, schema.LiveRow)
}

// HoldersByNode yields a node's allocations whose end it has not reported, the ones that are to end first.
// They hold its capacity, devices, ports and host volumes.
func HoldersByNode(tx Reader, node string) iter.Seq[*structs.Allocation] {
	return schema.HoldersByNode.Scan(tx, node)
}

// EndedAllocs yields the allocations that have ended, by the time of their last change.
func EndedAllocs(tx Reader) iter.Seq[*structs.Allocation] {
	return schema.AllocsByEnd.Scan(tx)
}

// putAlloc stores an allocation in place of old (nil for a new one), counts it for its deployment and updates
// the status of its job.
func putAlloc(tx *WriteTx, old, a *structs.Allocation) {
	recountDeployments(tx, old, a)
	storeAlloc(tx, old, a)

	// The status of the job is derived from the stored rows, so it comes after the put.
	refreshJobStatus(tx, structs.JobKey{Namespace: a.Namespace, ID: a.JobID}, a.ModifyTime)
}

// storeAlloc stores an allocation in place of old (nil for a new one) and applies the effects of its end. A
// terminal allocation leaves every claim queue. An ended one offers no services, gives up its tokens, no
// longer counts for its plugins and frees capacity.
func storeAlloc(tx *WriteTx, old, a *structs.Allocation) {
	if a.ClientTerminal() {
		a.Services = nil
	}
	recountAlloc(tx, old, a)
	schema.Allocs.Put(tx, a)
	followAlloc(tx, old, a)
}

// storeNewAlloc is storeAlloc for an allocation that has no row yet. like has values that it may share. The
// caller counts the allocation for its evaluation.
func storeNewAlloc(tx *WriteTx, a, like *structs.Allocation) {
	recountAlloc(tx, nil, a)
	schema.Allocs.PutNew(tx, a, like)
	followAlloc(tx, nil, a)
}

// followAlloc applies the effects of a change of an allocation on rows of other tables.
func followAlloc(tx *WriteTx, old, a *structs.Allocation) {
	// The reference of an allocation keeps the row of its plugin (checkPlugins), also before a node reports
	// the plugin.
	for _, id := range a.CSIPlugins {
		if !a.ClientTerminal() {
			csi.EnsurePlugin(tx, id)
		}
	}

	// One that is to stop will not use a volume, so its waiting claims must not delay the claims behind them.
	if a.Terminal() {
		csi.LeaveQueues(tx, a.ID, a.ModifyTime)
	}

	// Its granted claims stay, marked as ended: a volume may be mounted until the node has released it.
	if a.ClientTerminal() && old != nil {
		csi.EndClaims(tx, a.ID, a.ModifyTime)
		csi.EndAllocVolumes(tx, a, a.ModifyTime)
		trust.SITokensGiveUpOf(tx, a.ID, a.ModifyTime)
		dropUnusedPlugins(tx, a)
	}

	if old != nil && a.Terminal() && !old.Terminal() {
		namespace.QuotaFell(tx, a.Namespace)
	}

	// Both steps of an end give capacity: from the stop on, another allocation can be placed that waits for
	// the end, and after the end one that waits for nothing.
	if old != nil &&
		(a.Terminal() && !old.Terminal() ||
			a.ClientTerminal() && !old.ClientTerminal()) {
		unblock.Capacity(tx, a.NodeID)
	}
}

// dropUnusedPlugins deletes the rows of plugins of which the allocation was the last reference.
func dropUnusedPlugins(tx *WriteTx, a *structs.Allocation) {
	for _, id := range a.CSIPlugins {
		csi.DropUnusedPlugin(tx, id)
	}
}

// AllocsClientUpdate stores a node's report on its allocations. It ignores allocations that are unknown,
// that belong to another node or that have ended already. If an allocation of a live job ends, is known
// again after its node was away, or its health becomes known, the job is evaluated once.
func AllocsClientUpdate(tx *WriteTx, p *structs.AllocsClientUpdateRequest) error {
	if p.NodeID != "" {
		_, err := lease.FindCaller(tx, p)
		if err != nil {
			return err
		}
	}

	evaluated := map[structs.JobKey]bool{}
	for _, u := range p.Allocs {
		old := reportedAlloc(tx, p, u)
		if old == nil {
			continue
		}

		a := applyClientUpdate(tx, old, u, p.Now)
		if a == nil {
			continue
		}

		putAlloc(tx, old, a)
		key := structs.JobKey{
			Namespace: a.Namespace,
			ID:        a.JobID,
		}

		// The end of one that the servers stop needs no evaluation: the plan that stopped it has decided on
		// its successor.
		decides := a.ClientTerminal() && !old.Terminal() || old.IsUnknown() && !a.IsUnknown()
		if decides && !evaluated[key] {
			evaluated[key] = true
			evaluateAfter(tx, a, p.Now)
		}

		if a.DeploymentStatus.IsKnown() && !old.DeploymentStatus.IsKnown() {
			followHealth(tx, a, p.Now)
		}
	}

	return nil
}

// reportedAlloc returns the allocation that a report is about, nil if the report does not count.
func reportedAlloc(
	tx Reader, p *structs.AllocsClientUpdateRequest, u *structs.AllocClientUpdate,
) *structs.Allocation {
	// A request is stored as it came, and a panic here would end each server that applies the entry.
	if u == nil {
		return nil
	}

	a := Alloc(tx, u.ID)
	if a == nil || p.NodeID != "" && a.NodeID != p.NodeID {
		return nil
	}

	return a
}

// applyClientUpdate returns the allocation in its reported state, or nil if nothing changed. An ended
// allocation does not run again. A lost allocation may turn out to have ended in another way.
func applyClientUpdate(
	tx *WriteTx,
	old *structs.Allocation,
	u *structs.AllocClientUpdate,
	now int64,
) *structs.Allocation {
	reported := structs.Allocation{ClientStatus: u.ClientStatus}
	differs := u.ClientStatus != "" && u.ClientStatus != old.ClientStatus
	endKnown := old.ClientStatus == structs.AllocLost &&
		reported.ClientTerminal()

	// Only the servers decide that an allocation is lost or unknown: its node can be neither as it reports.
	if u.ClientStatus == structs.AllocLost || u.ClientStatus == structs.AllocUnknown ||
		(differs && old.ClientTerminal() && !endKnown) {
		return nil
	}

	a := old.Copy()
	if u.ClientStatus != "" {
		a.ClientStatus = u.ClientStatus
		a.ClientDescription = u.ClientDescription
	}

	if u.TaskStates != nil {
		a.TaskStates = maps.Clone(u.TaskStates)
	}

	if u.NetworkStatus != nil {
		a.NetworkStatus = u.NetworkStatus
	}

	a.DeploymentStatus = reportedHealth(tx, a, u, now)
	a.Services = offeredServices(tx, a, u)

	// An equal report writes no row: it would end blocking queries, and move the end of an allocation without
	// tasks (see updatePlanned).
	if reflect.DeepEqual(old, a) {
		return nil
	}

	a.ModifyTime = now
	return a
}

// evaluateAfter puts an evaluation of the job of an allocation that has ended by itself, or that is known
// again.
func evaluateAfter(tx *WriteTx, a *structs.Allocation, now int64) {
	trigger := structs.TriggerAllocStop
	switch {
	case a.ClientStatus == structs.AllocFailed:
		trigger = structs.TriggerAllocFailure
	case !a.ClientTerminal():
		trigger = structs.TriggerReconnect
	}
	enqueueFor(tx, a, trigger, now)
}

// enqueueFor puts an evaluation of the job of an allocation, unless the job is stopped or gone.
func enqueueFor(tx *WriteTx, a *structs.Allocation, trigger string, now int64) {
	j := Job(tx, a.Namespace, a.JobID)
	if j == nil || j.Stop {
		return
	}
	e := structs.NewEval(j, trigger, now)

	// It is the scope of a per-node job: see ofOneNode. For another job it names the node that caused it.
	e.NodeID = a.NodeID
	enqueueEval(tx, e, deriveID(tx, trigger, j.Namespace, j.ID, a.ID))
}

// AllocStop requests that an allocation be stopped and replaced. The scheduler does both. For one that is
// being stopped it only ends the shutdown_delay.
func AllocStop(tx *WriteTx, p *structs.AllocStopRequest) error {
	old := Alloc(tx, p.AllocID)
	if old == nil {
		return structs.NotFoundf("no allocation %q", p.AllocID)
	}

	delayed := old.ServerTerminal() && !old.ClientTerminal()
	if old.Terminal() && !(delayed && p.NoShutdownDelay) {
		return structs.Preconditionf("allocation %q has ended or is being stopped", p.AllocID)
	}

	a := old.Copy()
	a.ModifyTime = p.Now
	if !delayed {
		a.Migrate = true
	}

	if p.NoShutdownDelay {
		skipDelay(tx, a)
	}

	putAlloc(tx, old, a)
	j := Job(tx, a.Namespace, a.JobID)
	if j != nil {
		putGivenEval(tx, p.Eval, j, p.Now)
	}

	return nil
}

// skipDelay ends the shutdown_delay of an allocation. The node of one that is being stopped reads it again;
// for another one, that comes with the order to stop.
func skipDelay(tx *WriteTx, a *structs.Allocation) {
	a.NoShutdownDelay = true
	if a.ServerTerminal() {
		a.AllocModifyIndex = tx.Index
	}
}

// skipDelays ends the shutdown_delay of all allocations of a job.
func skipDelays(tx *WriteTx, j *structs.Job, now int64) {
	for _, old := range slices.Collect(AllocsByJob(tx, j.Namespace, j.ID)) {
		if old.ClientTerminal() || old.NoShutdownDelay {
			continue
		}
		a := old.Copy()
		a.ModifyTime = now
		skipDelay(tx, a)
		putAlloc(tx, old, a)
	}
}
