package csi

import (
	"fmt"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// selectsClaim reports whether a request selects a claim. An empty field of the request selects all.
func selectsClaim(req *structs.VolumeClaimListRequest, c *structs.CSIClaim) bool {
	matches := func(asked, value string) bool { return asked == "" || asked == value }
	return matches(req.VolumeID, c.VolumeID) &&
		matches(req.NodeID, c.NodeID) &&
		matches(req.AllocID, c.AllocID)
}

// claimStub returns the function that makes the rows of a list from the claims of a snapshot. It keeps what
// it has read of a queue, so it is for one list and one goroutine. Each row says what holds the claim, or for
// what it waits.
func claimStub(tx *state.ReadTx) func(*structs.CSIClaim, *structs.VolumeClaimStub) {
	// Causes are made for claims in the order of the list, so that a queue is read once.
	causes := csi.Causes(tx)
	queues := claimPositions{tx: tx}
	return func(c *structs.CSIClaim, stub *structs.VolumeClaimStub) {
		*stub = structs.VolumeClaimStub{
			ID:             structs.ClaimID(c.VolumeID, c.AllocID),
			Namespace:      c.Namespace,
			VolumeID:       c.VolumeID,
			AllocID:        c.AllocID,
			NodeID:         c.NodeID,
			PluginID:       c.PluginID,
			JobID:          c.JobID,
			TaskGroupName:  c.TaskGroup,
			Mode:           c.Mode,
			AccessMode:     c.AccessMode,
			AttachmentMode: c.AttachmentMode,
			State:          c.State,
			Since:          c.GrantTime,
			ClaimCause:     causes(c),
			Indexes:        c.Indexes,
		}

		if node := state.Node(tx, c.NodeID); node != nil {
			stub.NodeName = node.Name
		}

		// A claim that waits has no holder of its own: its cause names the claims before it.
		if c.State == structs.ClaimWaiting {
			stub.Since = c.CreateTime
			stub.Position = queues.of(c)
			return
		}

		held := claimHolder(tx, c)
		if held.Cause != structs.CauseInUse || stub.Cause == "" {
			stub.ClaimCause = held
		}
	}
}

// positions has the positions in the queue of the volume of the last claim. They are not stored: each release
// would change all rows behind it.
type claimPositions struct {
	tx         *state.ReadTx
	ns, volume string
	byAlloc    map[string]int
}

// of returns the position of a waiting claim in its volume's queue, from 1.
func (p *claimPositions) of(c *structs.CSIClaim) int {
	// The list goes volume by volume, so the positions of one volume are kept, and no more.
	if p.byAlloc == nil || p.ns != c.Namespace || p.volume != c.VolumeID {
		p.ns = c.Namespace
		p.volume = c.VolumeID
		p.byAlloc = map[string]int{}
		for _, row := range csi.ClaimsByVolume(p.tx, c.Namespace, c.VolumeID) {
			if row.State == structs.ClaimWaiting {
				p.byAlloc[row.AllocID] = len(p.byAlloc) + 1
			}
		}
	}

	return p.byAlloc[c.AllocID]
}

// holder says what holds a granted claim.
func claimHolder(tx *state.ReadTx, c *structs.CSIClaim) structs.ClaimCause {
	alloc := state.Alloc(tx, c.AllocID)
	node := state.Node(tx, c.NodeID)
	name := nodeName(node, c.NodeID)
	switch {
	case node == nil:
		return claimCause(structs.CauseNodeGone, "node %s has no row any more, so no server can call it", name)
	case node.Lost():
		// A lost node comes first: what its allocation was doing when it was lost says nothing about now.
		return claimCause(structs.CauseNodeDown, "node %s is down, and nothing proves that it does not write", name)
	case alloc != nil && !alloc.ClientTerminal():
		text := "allocation %s of job %s is %s"
		if alloc.ServerTerminal() {
			text += ", and is being stopped"
		}

		return claimCause(structs.CauseInUse, text, structs.ShortID(alloc.ID), alloc.JobID, alloc.ClientStatus)
	}

	// The allocation has ended on a node that is up: the claim is there until the node has unmounted it.
	return unreleased(tx, c, name)
}

// unreleased says why a claim is held whose allocation has ended, or has no row, on a node that is up.
func unreleased(tx *state.ReadTx, c *structs.CSIClaim, node string) structs.ClaimCause {
	// The node half of the plugin on that node is the only one that can unmount the volume.
	unmounts := csi.Instance(tx, c.PluginID, structs.CSIKindNode, c.NodeID)
	switch {
	case csi.Plugin(tx, c.PluginID) == nil:
		return claimCause(structs.CausePluginGone, "the allocation has ended, and plugin %s, which unmounts the "+
			"volume on node %s, has no row any more", c.PluginID, node)
	case unmounts == nil || !unmounts.Healthy:
		return claimCause(structs.CausePluginSick, "the allocation has ended, and plugin %s, which unmounts the "+
			"volume, has no healthy instance on node %s", c.PluginID, node)
	case c.ReleaseError != nil:
		return claimCause(structs.CauseFailing, "the allocation has ended, and node %s fails to release "+
			"the volume: %s", node, c.ReleaseError.Message)
	}

	return claimCause(structs.CauseReleasing, "the allocation has ended, and node %s releases the volume", node)
}

// nodeName returns the ID of a node without a name or a row.
func nodeName(n *structs.Node, id string) string {
	if n == nil || n.Name == "" {
		return id
	}
	return n.Name
}

// cause gives a cause its text. Programs go by the kind, and the text is for people.
func claimCause(kind, format string, args ...any) structs.ClaimCause {
	return structs.ClaimCause{
		Cause:     kind,
		CauseText: fmt.Sprintf(format, args...),
	}
}
