package simulation

import (
	"fmt"

	"berth/state"
	"berth/structs"
	"berth/structs/capacity"
	"berth/structs/storage"
)

// occupy gives the tasks their capacity, devices and ports of the machine, and fails the test if these are
// not there. What the servers took for lost may run beside others until the node has ended it.
func (r *run) occupy() bool {
	n := r.n
	own := r.row()
	n.mu.Lock()
	defer n.mu.Unlock()
	tx := n.w.store.Read()
	used := *own.Resources
	var beside []string
	for _, other := range n.runs {
		if !other.occupies {
			continue
		}
		a := other.row()
		if row := state.Alloc(tx, a.ID); row != nil && !row.ClientTerminal() {
			used = used.Add(*a.Resources)
			beside = append(beside, fmt.Sprintf("%s %s", a.Name, structs.ShortID(a.ID)))
		}
		if portsOf(a).Holder(own) != "" || (capacity.DeviceUse{}).Add(a).Holder(own) != "" ||
			storage.HostVolumeConflict(r.group, other.group) != "" {
			n.w.fail("node %s: allocation %s starts while %s has one of its devices, ports or host volumes",
				n.id, own.ID, a.ID)
		}
	}
	if short := n.row.Available().Exceeded(used); short != "" {
		n.w.fail("node %s: allocation %s starts beside %v with too little %s: %+v",
			n.id, own.ID, beside, short, used)
	}
	r.occupies = true
	return true
}
