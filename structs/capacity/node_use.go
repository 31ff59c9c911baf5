package capacity

import "berth/structs"

// NodeUse sums what allocations have of a node, those whose end it has not reported. The servers keep it
// beside the allocations, so that a placement does not read each of them. It is comparable.
type NodeUse struct {
	apart int // allocations of which a placement needs more than the sums
	all   amounts
	live  amounts // of the allocations that are to run
}

// mostSummed bounds an amount in a NodeUse, so that the sums never leave the range of an int.
const mostSummed = 1 << 32

// NodeUseOf returns what one allocation, or nil, has of its node.
func NodeUseOf(a *structs.Allocation) NodeUse {
	if a == nil || a.ClientTerminal() {
		return NodeUse{}
	}

	var u NodeUse
	if len(a.Devices) > 0 || len(a.CSIVolumes) > 0 {
		u.apart = 1
	}

	r := a.Resources
	if r == nil {
		return u
	}

	if max(r.CPU, r.MemoryMB, r.DiskMB) > mostSummed || min(r.CPU, r.MemoryMB, r.DiskMB) < 0 {
		u.apart = 1
		return u
	}

	u.all = amountsOf(r)
	if !a.ServerTerminal() {
		u.live = u.all
	}

	return u
}

// Suffices reports whether a placement needs no more than the sums. Else an allocation has devices, uses CSI
// volumes, or has amounts that the sums leave out.
func (u NodeUse) Suffices() bool { return u.apart == 0 }

// Plus returns the sum.
func (u NodeUse) Plus(o NodeUse) NodeUse {
	return NodeUse{u.apart + o.apart, u.all.plus(o.all), u.live.plus(o.live)}
}

// Minus returns the difference.
func (u NodeUse) Minus(o NodeUse) NodeUse {
	return NodeUse{u.apart - o.apart, u.all.minus(o.all), u.live.minus(o.live)}
}
