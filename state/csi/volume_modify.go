package csi

import (
	"maps"

	"berth/internal/mvcc"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// recordModification stores the parameters that the plugin has applied. If it has rejected them for good, the
// row keeps the applied ones, so that others can be requested.
func recordModification(tx *mvcc.WriteTx, v *structs.CSIVolume, p *structs.CSIVolumeOutcome) {
	// A failure of a call with other parameters says nothing about the ones wanted now.
	outdated := p.Err != nil && p.Parameters != nil && !maps.Equal(p.Parameters, storage.PendingParameters(v))
	switch {
	case !v.Modifies():
		return
	case outdated:
	case p.Err == nil:
		v.AppliedParameters = storage.MergeParameters(v.AppliedParameters, p.Parameters)
		v.LastError = nil
	default:
		v.LastError = CountFailure(v.LastError, p.Err)
		v.LastError.Op = storage.OpModify
		if p.Final {
			v.MutableParameters = v.AppliedParameters
		}
	}
	unblock.PutVolumeWithout(tx, v)
}
