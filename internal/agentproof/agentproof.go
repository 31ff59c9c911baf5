// Package agentproof decides which of two agents with one node ID has the lease of the node, and which of two
// servers with one ID is a member and votes.
//
// A second agent exists if a data directory was copied, or the disk of a machine was cloned. The servers
// reject it while the lease of the first one runs. When that lease has ended, the node is down, and the
// second agent takes over: the node comes back with a new epoch. It does not take over while the node has
// volumes. The first agent may still write to them on its machine, so they wait for the proof that releases
// the volumes of each lost node.
//
// Three things tell an agent, or its successor after a restart or a reboot, from a second one. All three must
// hold, as far as they are known:
//
//   - The machine is the same: see ReadMachine. A disk that was moved or copied has another one.
//   - The agent has the mark that is in the log: see structs.Node. A copy from before that mark was drawn
//     lacks it.
//   - The agent continues with the nonce that the leader knows: structs.AgentProof says how it changes. A
//     restart of the agent, a reboot of the machine and an answer that was lost do not change what is on the
//     disk of the node. So each of them continues, also after the lease has ended. A new leader knows none.
//
// A copy of the disk that is as new as the last heartbeat continues with the nonce as well. So a successor in
// another boot or another directory waits until the lease of the last heartbeat has ended. An agent that is
// alive sends another one before that, and the copy has fallen behind. A restart does not wait: the agent
// before it has ended, or this one could not open the store. A longer lease that an operator ordered does not
// count: a machine that reboots under it would have to wait for its end.
//
// An agent whose records were removed has neither mark nor nonce. It has the node when the lease of the
// agent before it has ended, if it is in the place of that one: the same directory in the same boot of the
// same machine. Nobody else can be there: the kernel draws the boot, and the agent holds the lock of the
// directory. It finds the tasks and mounts of the one before it. A copy of the disk is in another boot or
// in another directory. A machine that was resumed twice from its memory has its records: an agent with
// records that are too old is a second agent, also in that place.
//
// A leader learns the nonce of a node with its first heartbeat. Until then it compares the boot of the
// machine with the row's. An agent of another boot waits until the lease of the row's boot has ended, unless
// it runs on the leader's own machine, which was switched on together with it. To wait is no rejection: the
// machine may have rebooted, and then the agent has its node and its volumes after that.
//
// A whole machine that was started twice, with one identity and as new as the cut, cannot be told from a
// reboot. A pool whose nodes may be started twice says so (NodePool.Reboot): there the volumes of a lost node
// wait for a proof after a reboot, too.
//
// The rules of servers, whose votes are at stake, are in server.go. situations_test.go has the table of all
// cases of both, which docs/operations/lost-nodes.md shows.
package agentproof

import (
	"fmt"
	"slices"
	"time"

	"berth/structs"
)

// retryAfter is the time after which an agent that is rejected tries again.
const retryAfter = 2 * time.Second

// Node is the knowledge of a leader about the node of a request.
type Node struct {
	// Row is nil for a new node. One that is not down has a lease that runs.
	Row *structs.Node
	// Last is nil if this leader has accepted no proof of the node.
	Last *Last
	// HasVolumes: allocations of the node have volumes that the servers have not released.
	HasVolumes bool
	// AskAfterReboot: the pool of the node has reboot = "ask".
	AskAfterReboot bool
	// LeaderBoot is the boot of the leader's machine, "" if it is not known.
	LeaderBoot string
}

// Last is the last proof that a leader has accepted.
type Last struct {
	structs.AgentProof
	// Counts is the time for which its agent may still count the lease of that heartbeat, without a longer
	// one that an operator has ordered.
	Counts time.Duration
}

// Continues reports whether a proof is of the agent that gave the last one, or of its successor.
func (l *Last) Continues(given *structs.AgentProof) bool {
	return l.Nonce == given.Nonce || l.Nonce == given.Previous
}

// MayCount reports whether a proof is of another place than the last one, whose agent may still count its
// lease there.
func (l *Last) MayCount(given *structs.AgentProof) bool {
	return l.Counts > 0 && (l.BootID != given.BootID || l.Store != given.Store ||
		l.Machine != "" && !l.Machine.Same(given.Machine))
}

// IsFollowedBy reports whether a proof may have the lease after the last one, whatever the row says.
func (l *Last) IsFollowedBy(given *structs.AgentProof) bool {
	return l.Continues(given) && !l.MayCount(given) ||
		l.Counts <= 0 && lacksRecords(given, l.Machine, l.BootID, l.Store)
}

// lacksRecords reports whether a proof is of an agent without records in the place of another one. An agent
// with records has had a nonce acknowledged.
func lacksRecords(given *structs.AgentProof, machine structs.MachineID, boot, store string) bool {
	return given.Previous == "" &&
		machine != "" && machine == given.Machine &&
		boot != "" && boot == given.BootID &&
		store != "" && store == given.Store
}

// CheckProof returns a failed precondition for a request that does not say which agent sends it. Each agent
// has a nonce. A second one must not pass because it tells nothing.
func CheckProof(given *structs.AgentProof) error {
	if given == nil || given.Nonce == "" {
		return structs.Preconditionf("the request does not say which agent of the node sends it: it has no " +
			"nonce, which all agents have since 0.1.0. Update the agent of the node")
	}
	return nil
}

// Check returns an error with structs.CauseSecondAgent if another agent than the request's has the lease of
// the node, or its volumes. The error has no cause if that may be so, and if the request has no proof. given
// is the proof of the request.
func Check(n Node, given *structs.AgentProof) error {
	err := CheckProof(given)
	switch {
	case err != nil || n.Row == nil:
		return err
	case n.Last != nil && n.Last.Continues(given) && n.Last.MayCount(given):
		return structs.Busy(n.Last.Counts,
			"node %s has a lease of an agent in boot %s with the store %s, and "+
				"this agent is in boot %s with the store %s. It gets the lease when that one has ended, in %s",
			n.Row.ID, n.Last.BootID, n.Last.Store, given.BootID, given.Store,
			n.Last.Counts.Round(time.Second))
	case n.AskAfterReboot && n.HasVolumes && n.Row.BootID != given.BootID:
		if !n.Row.Lost() {
			return Rejection(n.Row.ID, "it runs on "+describe(n.Row))
		}
		return Rejection(n.Row.ID, n.lost(given)+". Its pool has reboot = \"ask\"")
	case n.isOfSameAgent(given):
		return nil
	case lacksRecords(given, n.Row.Machine, n.Row.BootID, n.Row.Store):
		return n.afterLease()
	case n.Last == nil && !given.Rejected && n.isSuccessor(given):
		return structs.Busy(retryAfter,
			"node %s ran in another boot (%s) than this agent (%s) before this leader "+
				"was elected, which cannot tell a reboot from a second agent. The agent gets the lease when that of "+
				"the former boot has ended", n.Row.ID, n.Row.BootID, given.BootID)
	case !n.Row.Lost():
		return Rejection(n.Row.ID, "it runs on "+describe(n.Row))
	case n.HasVolumes:
		return Rejection(n.Row.ID, n.lost(given))
	}

	return nil
}

// afterLease returns an error while the agent before one without records may still count its lease.
func (n Node) afterLease() error {
	if n.Row.Lost() || n.Last != nil && n.Last.Counts <= 0 {
		return nil
	}
	wait := retryAfter // a new leader does not know the lease, and waits until the node is down
	if n.Last != nil {
		wait = n.Last.Counts
	}
	return structs.Busy(wait,
		"node %s has a lease of an agent with the same store (%s) in this boot (%s), and this agent has no "+
			"records of it. It gets the lease, and the tasks and mounts, when that one has ended",
		n.Row.ID, n.Row.Store, n.Row.BootID)
}

// lost is the reason for which an agent waits for a proof.
func (n Node) lost(given *structs.AgentProof) string {
	why := "it is lost, and may still write to the volumes of the node on " + describe(n.Row)
	if n.Row.BootID == given.BootID {
		return why + ". This agent is in the same boot: end the tasks of the other one on this machine, or " +
			"reboot it. Then: berth node confirm-lost " + n.Row.ID
	}
	return why + ". If that machine is off, and not only this one: berth node confirm-lost " + n.Row.ID
}

// isSuccessor reports whether the row says nothing against an agent: it has the machine and the mark of the
// row.
func (n Node) isSuccessor(given *structs.AgentProof) bool {
	return (n.Row.Machine == "" || n.Row.Machine.Same(given.Machine)) &&
		(n.Row.Mark == "" || slices.Contains(given.Marks, n.Row.Mark))
}

// isOfSameAgent reports whether a proof is of the last agent, or of its successor.
func (n Node) isOfSameAgent(given *structs.AgentProof) bool {
	if !n.isSuccessor(given) {
		return false
	}
	if n.Last != nil {
		return n.Last.Continues(given)
	}
	// After the lease the machine may have rebooted. The boot of the leader's machine is none of a copy
	// elsewhere.
	return !given.Rejected && (n.Row.Lost() || n.Row.BootID == given.BootID ||
		n.LeaderBoot != "" && n.LeaderBoot == given.BootID)
}

// describe names the machine of a node.
func describe(n *structs.Node) string {
	return fmt.Sprintf("%s (%s, boot %s)", n.Name, n.HTTPAddr, n.BootID)
}

// Rejection is the error for an agent while another one has the lease of the node, or its volumes.
func Rejection(nodeID, why string) error {
	return structs.Rejectedf(structs.CauseSecondAgent, retryAfter,
		"node %s has another agent: %s. The data directory of one of the two was copied, or its machine cloned. "+
			"Give one of them a new identity (see docs/operations/lost-nodes.md). "+
			"This agent tries again by itself, and takes over when the other one is gone", nodeID, why)
}
