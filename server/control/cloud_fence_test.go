package control

import (
	"berth/fsm"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

// fence turns the machine of a lost node off, as a fence device that an operator has ordered. Its tasks end
// before the proof is in the log.
func (n *cloudAgent) fence() {
	w := n.w
	w.keptForLost += n.keptVolumes()
	err := try(w, fsm.FenceOrdered, &cluster.NodeFenceRequest{
		NodeID:       n.id,
		By:           "operator",
		WriteOptions: w.stamp(""),
	})
	if err != nil {
		return
	}
	tx := w.Store.Read()
	number := uint64(1)
	for _, run := range state.FenceRuns(tx, n.id) {
		number = max(number, run.Number+1)
	}
	err = try(w, fsm.FenceBegin, &cluster.FenceBeginRequest{
		NodeID:  n.id,
		Epoch:   state.Node(tx, n.id).Epoch,
		Number:  number,
		Attempt: 1,
		Device:  "ipmi",
		Scope:   cluster.FencePower,
		Now:     w.stamp("").Now,
	})
	if err != nil {
		return
	}

	for alloc, ids := range n.mounted {
		for _, id := range ids {
			w.cloud.unmount(id, alloc)
		}
	}
	clear(n.mounted)
	err = try(w, fsm.FenceEnd, &cluster.FenceEndRequest{
		NodeID: n.id,
		Number: number,
		Proved: true,
		Now:    w.stamp("").Now,
	})
	w.note("node %s was fenced: %v", n.id, err)
}

// keptVolumes counts the volumes of allocations that have been replaced, and may write on the lost node
// still.
func (n *cloudAgent) keptVolumes() (kept int) {
	tx := n.w.Store.Read()
	for v := range schema.Volumes.Scan(tx) {
		a := state.Alloc(tx, v.AllocID)
		if a != nil && a.NodeID == n.id && a.ClientStatus == structs.AllocLost && n.mounted[a.ID] != nil {
			kept++
		}
	}
	return kept
}
