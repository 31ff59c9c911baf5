package client

import "berth/structs"

// roomHolder returns an allocation on this node that is stopping and has ended for the servers, if the room
// of the node does not suffice for a beside it and the others of othersOf; "" if there is none. The servers
// count the room of such an allocation as free. Where there is none, the room is the business of the servers
// alone.
func (c *Client) roomHolder(a *structs.Allocation) (allocID string) {
	if a.Resources == nil {
		return ""
	}
	room := structs.NewNodeRoom(c.Node())
	for _, r := range c.othersOf(a) {
		other := r.Alloc()
		if other.CreateIndex == a.CreateIndex && other.ID > a.ID && !r.Stopping() {
			continue // of two allocations that come together, one has the room first
		}
		room.Hold(other)
		if r.Stopping() && other.ClientTerminal() {
			allocID = max(allocID, other.ID) // the same one in each look
		}
	}
	if allocID == "" || room.Short(*a.Resources) == "" {
		return ""
	}
	return allocID
}
