package structs

import "cmp"

// UnblockRow records when an unblock key was last unblocked, and which queues of blocked evaluations still
// have to be unblocked, in the table wakes. A volume needs no row while each change of its own row unblocks
// its key.
type UnblockRow struct {
	Key string
	At  uint64 `codec:",omitempty"` // log index; 0: ModifyIndex

	// While Due, the queues behind Next up to Last (all if that is "") are still to be unblocked, and after
	// them, if Then is not "", those from the first one up to Then.
	Due              bool   `codec:",omitempty"`
	Next, Last, Then string `codec:",omitempty"`

	// Of the key of node capacity: the nodes on which capacity was freed, the oldest first.
	Freed     []FreedNode `codec:",omitempty"`
	Forgotten uint64      `codec:",omitempty"` // Freed lacks nodes up to this log index; 0: it lacks all
	Indexes
}

// Unblocked returns the log index at which the key was last unblocked.
func (u *UnblockRow) Unblocked() uint64 {
	return cmp.Or(u.At, u.ModifyIndex)
}

// Covers reports whether a queue is still to be unblocked.
func (u *UnblockRow) Covers(queue string) bool {
	inRange := queue > u.Next && (u.Last == "" || queue <= u.Last)
	return u.Due && (inRange || queue <= u.Then)
}

// FreedNode is a node on which capacity was, or may have been, freed.
type FreedNode struct {
	Node string
	At   uint64 // log index
}
