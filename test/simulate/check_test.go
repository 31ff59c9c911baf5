package simulate

import (
	"bytes"
	"io"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// seen has what the last entries have left, to compare with.
type seen struct {
	nodes   map[string]*structs.Node
	granted map[string]*structs.CSIClaim // by volume
	runs    map[fenceKey]*fenceSeen
	pace    pace
}

type fenceKey struct {
	node   string
	number uint64
}

// fenceSeen is a run of a fence agent.
type fenceSeen struct {
	returns int // of the node, when the run began
	state   string
}

func newSeen() seen {
	return seen{
		nodes:   map[string]*structs.Node{},
		granted: map[string]*structs.CSIClaim{},
		runs:    map[fenceKey]*fenceSeen{},
		pace:    pace{replaced: map[string]bool{}},
	}
}

// checkEntry checks the properties that one entry can violate.
func (w *world) checkEntry(command string) {
	tx := w.store.Read()
	for _, n := range w.nodes {
		w.checkNode(tx, n)
	}
	w.checkPace(tx)
	proved := w.checkFences(tx)
	for _, v := range w.volumes {
		w.checkClaims(tx, v, command, proved)
	}
	for _, n := range w.nodes {
		row := state.Node(tx, n.id)
		if row != nil {
			w.seen.nodes[n.id] = row
		}
	}
}

// checkNode checks what became of a node.
func (w *world) checkNode(tx *state.ReadTx, n *node) {
	row := state.Node(tx, n.id)
	old := w.seen.nodes[n.id]
	switch {
	case row == nil || old == nil || row.Status == old.Status:
	case row.Status == structs.NodeDown:
		w.note("%s is down", n.id)
		if n.on && n.lease.TTL > 0 && !n.lease.Ended(n.clock()) {
			w.violate(leaseBeforeLoss, "%s is down, and counts its lease for %s",
				n.id, n.lease.Until().Sub(n.clock()))
		}
		if w.now < n.kept {
			w.violate(leaseBeforeLoss, "%s is down, %s before its lease and the grace have passed", n.id, n.kept-w.now)
		}
	case old.Status == structs.NodeDown:
		n.returns++
		w.note("%s is back in epoch %d", n.id, row.Epoch)
		if row.Epoch <= old.Epoch {
			w.violate(growingEpoch, "%s is back in epoch %d after %d", n.id, row.Epoch, old.Epoch)
		}
	}
}

// checkFences checks the runs of fence agents and the other proofs. It returns the nodes of which a fence
// device or an operator has just proved the loss.
func (w *world) checkFences(tx *state.ReadTx) (proved map[string]bool) {
	for _, n := range w.nodes {
		for _, r := range state.FenceRuns(tx, n.id) {
			key := fenceKey{n.id, r.Number}
			last := w.seen.runs[key]
			if last == nil {
				last = &fenceSeen{returns: n.returns}
				w.seen.runs[key] = last
				w.checkWanted(tx, n, r)
			}
			if r.State == cluster.FenceProved && last.state != r.State {
				if proved == nil {
					proved = map[string]bool{}
				}
				proved[n.id] = r.Kind != cluster.FenceByLease
				w.checkProof(tx, n, r, last)
			}
			last.state = r.State
		}
	}
	return proved
}

// checkWanted checks that somebody wants a run that begins.
func (w *world) checkWanted(tx *state.ReadTx, n *node, r *cluster.FenceRun) {
	if r.Kind != cluster.FenceByAgent || r.Ordered() {
		return
	}
	for _, c := range state.LostClaims(tx, n.id) {
		if c.Waited && w.volume(c.VolumeID).policy == structs.LossFence {
			return
		}
	}
	w.violate(wantedFence, "run %d of %s begins, and nobody waits for a volume with the policy fence", r.Number, n.id)
}

// checkProof checks a new proof.
func (w *world) checkProof(tx *state.ReadTx, n *node, r *cluster.FenceRun, last *fenceSeen) {
	row := state.Node(tx, n.id)
	switch {
	case last.returns != n.returns:
		w.violate(proofOfOneLoss, "run %d of %s is a proof, and the node came back meanwhile", r.Number, n.id)
	case row.Status != structs.NodeDown || row.Epoch != r.Epoch:
		w.violate(proofOfOneLoss, "run %d is a proof of epoch %d, and %s is %s in epoch %d", r.Number, r.Epoch,
			n.id, row.Status, row.Epoch)
	}
}

// checkClaims checks the claims of a volume and the task that has it. proved has the nodes with a new proof.
func (w *world) checkClaims(tx *state.ReadTx, v *volume, command string, proved map[string]bool) {
	isGranted := func(alloc string) bool {
		c := csi.Claim(tx, structs.DefaultNamespace, v.id, alloc)
		return c != nil && c.State == structs.ClaimGranted
	}
	old := w.seen.granted[v.id]
	if old != nil && !isGranted(old.AllocID) && command != fsm.VolumeUnpublish.Name {
		byLease := command == fsm.LeaseProof.Name && v.policy == structs.LossLease && old.Guarded
		if !byLease && !proved[old.NodeID] {
			w.violate(provedRelease, "%s released volume %s of %s", command, v.id, old.NodeID)
		}
	}
	for _, m := range v.mounts {
		if !isGranted(m.alloc) && !v.sleeps(m) {
			w.violate(claimedWriter, "after %s allocation %s has volume %s on %s without a claim",
				command, structs.ShortID(m.alloc), v.id, m.node.id)
		}
	}

	delete(w.seen.granted, v.id)
	for _, c := range csi.ClaimsByVolume(tx, structs.DefaultNamespace, v.id) {
		if c.State == structs.ClaimGranted {
			w.seen.granted[v.id] = c
		}
	}
}

// checkRows checks the whole state, now and then.
func (w *world) checkRows() {
	for _, fault := range state.Check(w.store.Read()) {
		w.violate(consistentState, "%s", fault)
	}
}

// checkReplay applies the log to a second server.
func (w *world) checkReplay() {
	second := state.New()
	f := fsm.New(second)
	for _, l := range w.entries {
		f.Apply(l)
	}
	var one, other bytes.Buffer
	save(w, w.store, &one)
	save(w, second, &other)
	if !bytes.Equal(one.Bytes(), other.Bytes()) {
		w.violate(equalReplay, "the states of two servers differ after %d entries", len(w.entries))
	}
}

func save(w *world, s *state.Store, to io.Writer) {
	err := s.Read().Save(to)
	if err != nil {
		w.violate(equalReplay, "saving the state: %v", err)
	}
}
