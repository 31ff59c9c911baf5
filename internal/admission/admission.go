// Package admission decides which of two agents with one node ID has the lease of the node.
//
// A second agent exists if a data directory was copied, or the disk of a machine was cloned. The servers
// reject it while the lease of the first one runs. When that lease has ended, the node is down, and the next
// agent that calls takes over: the node comes back with a new epoch.
//
// An agent continues the lease with the nonce that the leader knows: structs.AgentProof says how that nonce
// changes. A restart of the agent, a reboot of the machine and an answer that was lost do not change what is
// on the disk of the node. So each of them continues the lease at once.
//
// A leader learns the nonce of a node with its first heartbeat. Until then it compares the boot of the machine
// with that of the row.
package admission

import (
	"time"

	"berth/structs"
)

// retryAfter is the time after which an agent that is rejected tries again.
const retryAfter = 2 * time.Second

// Check returns an error with structs.CauseSecondAgent if another agent has the lease of the node. row is that
// of the node, nil for a new one. A row that is not down has a lease that runs. known is the last proof that
// this leader has accepted within the lease, nil if there is none. given is the proof of the request, nil for
// an agent of level 1, which is accepted.
func Check(row *structs.Node, known, given *structs.AgentProof) error {
	switch {
	case given == nil || given.Nonce == "":
		return nil
	case row.Lost():
		return nil // the first of them takes over
	case known != nil && Continues(known, given):
		return nil
	case known == nil && row.BootID == "":
		return nil // an agent of level 1 registered the node
	case known == nil && row.BootID == given.BootID && !given.Rejected:
		return nil
	}
	return Rejection(row.ID)
}

// Continues reports whether a proof is of the agent, or of a successor with its disk, that gave the known one.
func Continues(known, given *structs.AgentProof) bool {
	return known.Nonce == given.Nonce || known.Nonce == given.Previous
}

// Rejection is the error for an agent while another one has the lease of the node.
func Rejection(nodeID string) error {
	return structs.Rejectedf(structs.CauseSecondAgent, retryAfter,
		"another agent has the lease of node %s: the data directory of one was copied, or its machine cloned. "+
			"Give one of them a new identity (see lost-nodes.md in docs/operations). "+
			"This agent may take over when that lease has ended", nodeID)
}
