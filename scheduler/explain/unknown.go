package explain

import (
	"berth/scheduler/disconnect"
	"berth/state"
	"berth/structs"
	"berth/structs/inquiry"
)

// unknownAlloc explains an allocation whose node was or is down, and what ends its state.
func (x *jobExplainer) unknownAlloc(a *structs.Allocation) *inquiry.Reason {
	r := x.alloc(a, "is unknown")
	n := state.Node(x.tx, a.NodeID)
	if !n.Lost() {
		r.Because = []*inquiry.Reason{reason("its node is back, and has not reported it yet")}
		r.Remedy = "if this lasts, see the log of its node: berth node status " + structs.ShortID(a.NodeID)
		return r
	}

	r.Because = []*inquiry.Reason{x.nodeDown(a.NodeID)}
	until := disconnect.LostAt(x.job.Group(a.TaskGroup), n)
	switch {
	case until != 0:
		r.Because = append(r.Because, reason("it is lost %s, if its node is not back", x.until(until)))
	// A node that is deleted is not waited for.
	case n != nil:
		r.Because = append(r.Because,
			reason("the disconnect block of its group waits for its node without a bound"))
	}

	if a.NextAllocation != "" {
		r.Because = append(r.Because, reason("allocation %s has its place",
			structs.ShortID(a.NextAllocation)))
	}

	r.Remedy = "to give it up: " + command(a.Namespace, "alloc stop", structs.ShortID(a.ID))
	return r
}
