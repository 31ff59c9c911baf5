package agentproof

import (
	"time"

	"berth/structs"
)

// Server is a server as the gossip of others tells of it.
type Server struct {
	Name    string
	Address string // of its RPC
	Machine structs.MachineID
	Held    bool // it must not vote: see MayVote
}

// KnownServer is what a server knows of the one that has an ID.
type KnownServer struct {
	Server
	Alive  bool
	Left   bool          // it has left by itself
	Silent time.Duration // since when it has failed
}

// CheckServer returns an error if a server must not take the place of the one that is known by its ID. That
// one may be alive elsewhere: a data directory was copied, or a machine was cloned.
//
//   - While the known one is alive, no other takes its place. A restart at another address passes: the gossip
//     decides about it when the known one has failed, some seconds later.
//   - After that, the same machine takes its place at once, and another one after a wait.
//   - The place of a server that has left is free. That of one that must not vote is free for one that may.
//
// To take the place is to be a member. Votes are another question: see MayVote.
func CheckServer(known *KnownServer, given Server, wait time.Duration) error {
	if known == nil || known.Left || known.Held && !given.Held {
		return nil
	}

	sameName := known.Name == given.Name
	same := known.Machine.Same(given.Machine)
	if known.Machine == "" || given.Machine == "" {
		same = sameName // nothing else is known, for example of a server of an older version
	}

	switch {
	case sameName && known.Address == given.Address,
		sameName && same,
		!known.Alive && same,
		!known.Alive && known.Silent >= wait:
		return nil
	}

	state := "is alive"
	if !known.Alive {
		state = "was alive until " + known.Silent.Round(time.Second).String() + " ago"
	}
	return structs.Rejectedf(structs.CauseSecondAgent, 0,
		"the server %s at %s has the ID of the server %s at %s, which %s. A data directory was copied, "+
			"or a machine cloned. Stop one of the two: for a server of its own, "+
			"delete the copied data directory. If the server was moved, "+
			"it is taken when the first one has been silent for %s (see docs/operations/servers.md)",
		given.Name, given.Address, known.Name, known.Address, state, wait)
}

// Start is a start of a server on its data directory.
type Start struct {
	// Kept is the machine on which the server last had the right to vote. "" is not known: this is its first
	// start, or the machine does not tell its identity.
	Kept structs.MachineID
	// Now is the machine on which it starts.
	Now structs.MachineID
	// Voter: the data directory says that the server has a vote.
	Voter bool
	// Only: and that it has the only one.
	Only bool
}

// MayVote reports whether a server may vote and stand for election from its start on. A server on another
// machine may be the copy of one that runs. It has a vote again only from a leader that was elected without
// it, which removes the server from the members and adds it anew.
//
// Nobody could elect such a leader for the only voter. A server whose members an operator has written anew
// (peers.json) begins there as on its own machine.
func MayVote(s Start) bool {
	return s.Kept == "" || s.Kept.Same(s.Now) || !s.Voter || s.Only
}

// LacksEntries reports whether a server whose log ends with one entry has acknowledged a later one: its disk
// was put back to an earlier state. Its vote does not count, because a leader could be elected with it that
// lacks what a majority had stored. A leader takes the vote, and adds the server anew. acknowledged is 0 if
// it is not known.
func LacksEntries(last, acknowledged uint64) bool { return last < acknowledged }
