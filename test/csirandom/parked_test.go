package csirandom

import (
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// retryParked takes the step of an operator for each call that its plugin has rejected for good. Berth does
// not repeat such a call by itself (CSI spec, "Error Scheme"), and its row says so.
func (w *world) retryParked(tx *state.ReadTx) {
	for c := range csi.ClaimsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		if isParked(c.ReleaseError) {
			_, err := request(w, structs.CSIVolumeDetach,
				&structs.CSIVolumeDetachRequest{VolumeID: c.VolumeID, NodeID: c.NodeID})
			w.record("release volume %s from node %.8s: %v", c.VolumeID, c.NodeID, err)
			w.count("release a parked volume", err)
		}
	}
	for a := range csi.UnsettledAttachments(tx) {
		if isParked(a.LastError) {
			_, err := request(w, structs.CSIVolumeRetry, &structs.CSIVolumeRetryRequest{ID: a.VolumeID})
			w.record("retry volume %s: %v", a.VolumeID, err)
			w.count("retry a parked volume", err)
		}
	}
}

func isParked(e *structs.OperationError) bool { return e != nil && e.RetryTime == structs.NeverTry }
