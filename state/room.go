package state

import "berth/structs"

// Who found no room has asked every node. When room is made he need not ask all of them again, but those on
// which it was made since: a few of these are remembered beside the last waking.

// keptRooms is how many nodes are remembered. Of what was before these all is forgotten but that it was.
const keptRooms = 32

// makeRoom wakes who waits for capacity, and remembers where there is more of it: "" may be anywhere.
func makeRoom(tx *WriteTx, node string) {
	wakeKey(tx, structs.WakeCapacity)
	if node != "" && jobsPerNode.Has(tx) {
		wakeKey(tx, structs.WakeNode(node))
	}
	old := wakes.Get(tx, structs.WakeCapacity)
	if n := len(old.Rooms); n > 0 && old.Rooms[n-1] == (structs.FreedNode{Node: node, At: tx.Index}) {
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
	rooms = append(rooms, structs.FreedNode{Node: node, At: tx.Index})
	if len(rooms) > keptRooms {
		w.Forgotten = rooms[0].At
		rooms = rooms[1:]
	}
	w.Rooms = rooms
	wakes.Put(tx, &w)
}

// RoomSince lists the nodes on which room was made after an index. It reports false where there may have been
// others.
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
