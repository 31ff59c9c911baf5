package lifecycle

import (
	"berth/internal/mvcc"
	"berth/state/blocked"
	"berth/structs"
	"berth/structs/modify"
)

// recordModification stores the parameters that the plugin has applied. If it has rejected them for good, the
// row keeps those that are applied, so that others can be requested.
func recordModification(tx *mvcc.WriteTx, v *structs.CSIVolume, p *structs.CSIVolumeOutcome) {
	switch {
	case !v.Modifies():
		return
	case p.Err == nil:
		v.AppliedParameters = modify.Merge(v.AppliedParameters, p.Parameters)
		v.LastError = nil
	default:
		v.LastError = CountFailure(v.LastError, p.Err)
		v.LastError.Op = modify.Op
		if p.Final {
			v.MutableParameters = v.AppliedParameters
		}
	}
	blocked.PutWithoutUnblock(tx, v)
}
