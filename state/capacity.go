package state

import "berth/structs"

// An evaluation that found no capacity has tried every node. When capacity is freed, it need not try all
// nodes again, but only those on which capacity was freed since. The unblock row records a few of these
// nodes.

// keptRooms is the number of recorded nodes. Of earlier ones the row only records that they existed.
const keptRooms = 32

// makeRoom unblocks the evaluations that wait for capacity, and records the node with freed capacity; ""
// stands for any node.
func makeRoom(tx *WriteTx, node string) {
	wakeKey(tx, structs.WakeCapacity)
	if node != "" && jobsPerNode.Has(tx) {
		wakeKey(tx, structs.WakeNode(node))
	}
	old := wakes.Get(tx, structs.WakeCapacity)
	freed := structs.FreedNode{Node: node, At: tx.Index}
	if n := len(old.Rooms); n > 0 && old.Rooms[n-1] == freed {
		return
	}
	w := *old
	if node == "" {
		w.Rooms = nil
		w.Forgotten = tx.Index
		wakes.Put(tx, &w)
		return
	}
	if w.Forgotten == 0 {
		w.Forgotten = tx.Index - 1 // the first that is remembered
	}
	rooms := make([]structs.FreedNode, 0, keptRooms+1)
	for _, r := range w.Rooms {
		if r.Node != node {
			rooms = append(rooms, r)
		}
	}
	rooms = append(rooms, freed)
	if len(rooms) > keptRooms {
		w.Forgotten = rooms[0].At
		rooms = rooms[1:]
	}
	w.Rooms = rooms
	wakes.Put(tx, &w)
}

// RoomSince lists the nodes on which capacity was freed after an index. It reports false if there may have
// been others.
func RoomSince(tx Reader, index uint64) (nodes []string, known bool) {
	w := wakes.Get(tx, structs.WakeCapacity)
	if w == nil || w.Forgotten == 0 || index < w.Forgotten {
		return nil, false
	}
	for _, r := range w.Rooms {
		if r.At > index {
			nodes = append(nodes, r.Node)
		}
	}
	return nodes, true
}
