package simulate

import (
	"maps"
	"slices"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/guarantees"
)

// The stages of an allocation on a machine.
const (
	claiming = iota // its claim is to be recorded
	awaiting        // its claim waits for the grant or the attachment
	mounting        // it may mount
	running         // it runs, and has its volume mounted
	stopping        // it is about to end
	leaving         // it has ended, and its claim is to be released
	gone
)

// run is an allocation on a machine.
type run struct {
	n      *node
	id     string
	job    string
	claims []*structs.CSIClaim
	stage  int
	failed bool
	// guarded: the guard of the machine ends the allocation with the lease.
	guarded bool
}

func (n *node) sortedRuns() (all []*run) {
	for _, id := range slices.Sorted(maps.Keys(n.runs)) {
		all = append(all, n.runs[id])
	}
	return all
}

// pollTimeout is longer than the time for which a poll waits at the leader.
const pollTimeout = 30 * time.Second

// poll asks for the allocations of the node. The leader answers when they have changed.
func (n *node) poll() {
	epoch := n.epoch // a return that begins meanwhile needs a list of its own
	n.call(pollTimeout, n.servePoll, func(answer any, err error) {
		pause := 10 * time.Millisecond
		if err == nil {
			n.follow(answer.([]*structs.Allocation))
			n.pulled = epoch
			if epoch != n.epoch {
				n.index = 0
			}
		} else {
			n.index = 0
			pause = n.w.upTo(2 * time.Second)
		}
		n.inAgent(pause, n.poll)
	})
}

func (n *node) servePoll(_ *leader, reply func(any, error)) {
	n.parked = reply
	n.answerPoll()
	if n.parked != nil {
		n.w.after(pollTimeout/2, func() {
			if n.parked != nil {
				n.index = 0
				n.answerPoll()
			}
		})
	}
}

// answerPoll answers the poll that waits, if the allocations have changed.
func (n *node) answerPoll() {
	if n.parked == nil {
		return
	}
	var rows []*structs.Allocation
	newest := uint64(1)
	for a := range state.AllocsByNode(n.w.store.Read(), n.id) {
		rows = append(rows, a)
		newest = max(newest, a.AllocModifyIndex)
	}
	if newest <= n.index {
		return
	}
	n.index = newest
	reply := n.parked
	n.parked = nil
	reply(rows, nil)
}

// follow starts and stops allocations.
func (n *node) follow(rows []*structs.Allocation) {
	wanted := map[string]bool{}
	for _, a := range rows {
		wanted[a.ID] = true
		r := n.runs[a.ID]
		switch {
		case r != nil && a.ServerTerminal():
			r.stop()
		case r != nil && r.stage == running && a.ClientStatus == structs.AllocUnknown:
			n.report(a.ID)
		case r != nil:
		case n.ledger[a.ID] != nil && (a.Terminal() || n.ended[a.ID].status != ""):
			n.finish(a) // the machine was switched off meanwhile
		case n.ended[a.ID].status != "":
			if !a.ClientTerminal() {
				n.report(a.ID)
			}
		case a.ClientTerminal():
		case a.ServerTerminal():
			n.end(a.ID, structs.AllocComplete)
			n.report(a.ID)
		default:
			n.start(a, claiming)
		}
	}
	for _, r := range n.sortedRuns() {
		if !wanted[r.id] {
			r.stop()
		}
	}
}

func (n *node) start(a *structs.Allocation, stage int) {
	r := &run{
		n:     n,
		id:    a.ID,
		job:   a.JobID,
		stage: stage,
	}
	job := state.JobVersion(n.w.store.Read(), a.Namespace, a.JobID, a.JobVersion)
	if job != nil {
		for _, v := range job.Group(a.TaskGroup).Volumes {
			c := v.Claim(a.Namespace, a.Index(), a.ID)
			c.AllocID = a.ID
			c.Guarded = n.w.volume(c.VolumeID).policy == structs.LossLease && n.canGuard(a.ID)
			r.guarded = r.guarded || c.Guarded
			r.claims = append(r.claims, c)
		}
	}
	n.runs[a.ID] = r
	r.advance()
}

// canGuard reports whether the guard of a machine can end an allocation: it can end one of eight not. With a
// script it can end each.
func (n *node) canGuard(id string) bool { return id[0] > '1' || n.w.script != nil }

// finish releases the claims of an allocation that ended with the power.
func (n *node) finish(a *structs.Allocation) {
	if n.ended[a.ID].status == "" {
		n.end(a.ID, structs.AllocComplete)
	}
	n.start(a, leaving)
}

// advance does the next thing for the allocation. The agent does it, so it repeats it after a restart.
func (r *run) advance() {
	n := r.n
	switch r.stage {
	case claiming:
		if len(r.claims) == 0 {
			r.stage = mounting
			n.inAgent(n.w.upTo(time.Second), r.mount)
			return
		}
		r.claim()
	case awaiting:
		r.await()
	case mounting:
		n.inAgent(n.w.upTo(time.Second), r.mount)
	case running:
		n.report(r.id)
	case stopping:
		n.inAgent(n.w.upTo(5*time.Second), r.end)
	case leaving:
		n.report(r.id)
		r.release()
	}
}

// claim records the claim, on disk first.
func (r *run) claim() {
	n := r.n
	n.ledger[r.id] = nil
	for _, c := range r.claims {
		n.ledger[r.id] = append(n.ledger[r.id], c.Key())
	}
	n.disk.markClaims(n.w, n.place())
	proof := n.disk.proof(n.place(), 2)
	epoch := n.epoch
	serve := func(l *leader, reply func(any, error)) {
		a := state.Alloc(n.w.store.Read(), r.id)
		if a == nil || a.NodeID != n.id {
			reply(nil, structs.NotFoundf("there is no allocation %s", r.id))
			return
		}
		err := l.checkAgent(n, proof)
		if err != nil {
			reply(nil, err)
			return
		}
		reply(nil, propose(n.w, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{
			NodeID:       n.id,
			SecretID:     "secret of " + n.id,
			NodeEpoch:    structs.NodeEpoch{Epoch: epoch},
			FromAgent:    structs.FromAgent{Agent: proof.OfLog()},
			Claims:       r.claims,
			WriteOptions: n.w.stamp(),
		}))
	}
	n.call(requestTimeout, serve, func(_ any, err error) {
		switch {
		case r.stage != claiming:
		case err == nil:
			r.stage = awaiting
			r.advance()
		case isTransient(err):
			n.inAgent(time.Second, func() {
				if r.stage == claiming {
					r.claim()
				}
			})
		default:
			r.fail()
		}
	})
}

func isTransient(err error) bool {
	return structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout)
}

// await asks whether the volume is ready.
func (r *run) await() {
	n := r.n
	serve := func(_ *leader, reply func(any, error)) {
		tx := n.w.store.Read()
		c := csi.Claim(tx, structs.DefaultNamespace, r.claims[0].VolumeID, r.id)
		if c == nil {
			reply(false, structs.NotFoundf("allocation %s has no claim", r.id))
			return
		}
		a := csi.Attachment(tx, c.Namespace, c.VolumeID, n.id)
		reply(c.State == structs.ClaimGranted && a != nil && a.State == structs.AttachmentAttached, nil)
	}
	n.call(requestTimeout, serve, func(answer any, err error) {
		switch {
		case r.stage != awaiting:
		case err == nil && answer.(bool):
			r.stage = mounting
			r.advance()
		case err == nil || isTransient(err):
			n.inAgent(time.Second+n.w.upTo(time.Second), func() {
				if r.stage == awaiting {
					r.await()
				}
			})
		default:
			r.fail()
		}
	})
}

// mount mounts the volume and starts the task. A volume that another node may get at the end of the lease is
// not mounted without a lease.
func (r *run) mount() {
	n := r.n
	if r.stage != mounting {
		return
	}
	if r.guarded && n.clock() >= n.lease.Until() {
		r.stage = awaiting // it asks again when there is a lease: the servers may have released the claim
		n.inAgent(time.Second, r.advance)
		return
	}
	for _, c := range r.claims {
		n.w.mount(n.w.volume(c.VolumeID), mount{n, r.id})
	}
	r.stage = running
	n.report(r.id)
}

// stop orders the end of the allocation.
func (r *run) stop() {
	if r.stage < stopping {
		r.stage = stopping
		r.advance()
	}
}

func (r *run) fail() {
	r.failed = true
	r.stop()
}

// end ends the task and unmounts the volume.
func (r *run) end() {
	n := r.n
	if r.stage != stopping {
		return
	}
	for _, c := range r.claims {
		n.w.volume(c.VolumeID).unmount(func(m mount) bool { return m.node == n && m.alloc == r.id })
	}
	n.w.note("%s: allocation %s has ended", n.id, structs.ShortID(r.id))
	status := structs.AllocComplete
	if r.failed {
		status = structs.AllocFailed
	}
	n.end(r.id, status)
	r.stage = leaving
	r.advance()
}

// release tells the servers that the volume is unmounted, until they know.
func (r *run) release() {
	n := r.n
	keys := n.ledger[r.id]
	if len(keys) == 0 {
		r.stage = gone
		delete(n.runs, r.id)
		return
	}
	epoch := n.epoch
	proof := n.disk.proof(n.place(), 2)
	serve := func(l *leader, reply func(any, error)) {
		err := l.checkAgent(n, proof)
		if err != nil {
			reply(nil, err)
			return
		}
		reply(nil, propose(n.w, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
			NodeID:       n.id,
			NodeEpoch:    structs.NodeEpoch{Epoch: epoch},
			FromAgent:    structs.FromAgent{Agent: proof.OfLog()},
			SecretID:     "secret of " + n.id,
			Claims:       keys,
			WriteOptions: n.w.stamp(),
		}))
	}
	n.call(requestTimeout, serve, func(_ any, err error) {
		if r.stage != leaving {
			return
		}
		if err != nil {
			n.inAgent(time.Second, r.release)
			return
		}
		delete(n.ledger, r.id)
		r.release()
	})
}

// ending is the end of an allocation on a machine.
type ending struct {
	status string        // "": it has not ended
	at     time.Time     // by the wall clock of the machine
	truly  time.Duration // by the time that really passes
}

func (n *node) end(id, status string) {
	n.ended[id] = ending{
		status: status,
		at:     n.clocks.wall(),
		truly:  n.w.now,
	}
}

// update is a report on an allocation.
func (n *node) update(id string) *structs.AllocClientUpdate {
	task := &structs.TaskState{State: structs.TaskRunning}
	status := structs.AllocRunning
	if e := n.ended[id]; e.status != "" {
		status = e.status
		task.State = structs.TaskDead
		task.Failed = status == structs.AllocFailed
		task.FinishedAt = e.at
	}
	return &structs.AllocClientUpdate{
		ID:           id,
		ClientStatus: status,
		TaskStates:   map[string]*structs.TaskState{"t": task},
	}
}

// report tells the servers the state of an allocation, until they know.
func (n *node) report(id string) {
	epoch := n.epoch
	serve := func(_ *leader, reply func(any, error)) {
		a := state.Alloc(n.w.store.Read(), id)
		update := n.update(id)
		status := update.ClientStatus
		if a == nil || a.ClientStatus == status || a.ClientStatus == structs.AllocComplete ||
			a.ClientStatus == structs.AllocFailed {
			reply(nil, nil)
			return
		}
		reply(nil, propose(n.w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			NodeID:       n.id,
			NodeEpoch:    structs.NodeEpoch{Epoch: epoch},
			SecretID:     "secret of " + n.id,
			Allocs:       []*structs.AllocClientUpdate{update},
			WriteOptions: n.w.stamp(),
		}))
	}
	n.call(requestTimeout, serve, func(_ any, err error) {
		if err != nil && isTransient(err) {
			n.inAgent(time.Second, func() { n.report(id) })
		}
	})
}

// checkClaims ends the allocations that have a volume without a claim.
func (n *node) checkClaims() {
	epoch := n.awaited
	serve := func(_ *leader, reply func(any, error)) {
		granted := map[string]bool{}
		for c := range csi.ClaimsByNode(n.w.store.Read(), n.id) {
			granted[c.AllocID] = granted[c.AllocID] || c.State == structs.ClaimGranted
		}
		reply(granted, nil)
	}
	n.call(requestTimeout, serve, func(answer any, err error) {
		if err != nil {
			n.inAgent(time.Second, n.checkClaims)
			return
		}
		for _, r := range n.sortedRuns() {
			if r.stage == running && len(r.claims) > 0 && !answer.(map[string]bool)[r.id] {
				r.fail()
			}
		}
		n.checked = epoch
	})
}

// guardTakes returns the time that the guard needs. With a script it needs the longest.
func (n *node) guardTakes() time.Duration {
	if n.w.script != nil {
		return cluster.GuardEndTime - time.Millisecond
	}
	return n.w.upTo(cluster.GuardEndTime)
}

// guard ends the tasks that must not outlive the lease. It needs no agent.
func (n *node) guard() {
	if !n.lease.Ended(n.clock()) {
		return
	}
	n.w.script.reach("the lease of " + n.id + " ends")
	for _, r := range n.sortedRuns() {
		if r.stage <= stopping && r.guarded {
			n.checkNeeded(r)
			r.failed = true
			r.stage = stopping
			n.inKernel(n.guardTakes(), r.end)
		}
	}
}

// checkNeeded checks that the node could not have had another lease.
func (n *node) checkNeeded(r *run) {
	reached := n.clocks.counted(n.w.now - n.unreached)
	const rounding = time.Microsecond // of timers
	if r.stage == running && reached > n.lease.TTL/guarantees.LeaseShare+rounding {
		n.w.violate(guarantees.NeedlessEnd, "the lease of %s ends allocation %s, and the leader was reachable for %s",
			n.id, structs.ShortID(r.id), reached)
	}
}
