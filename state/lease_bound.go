package state

import (
	"time"

	"berth/structs"
)

// LeaseBound returns the longest lease, with its grace, that a leader may have granted. It is 0 if none has
// granted a lease.
func LeaseBound(tx Reader) time.Duration {
	row := leaseBounds.Get(tx, onlyLeaseBound)
	if row == nil {
		return 0
	}
	return row.Longest
}

// LeaseBoundSet stores the bound of the leases that leaders grant.
func LeaseBoundSet(tx *WriteTx, p *structs.LeaseBoundRequest) error {
	if p.Longest <= 0 {
		return structs.Invalidf("Longest is %s; expected the longest lease with its grace", p.Longest)
	}
	leaseBounds.Put(tx, &structs.LeaseBound{Longest: p.Longest})
	return nil
}
