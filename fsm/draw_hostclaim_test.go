package fsm

import (
	"maps"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// hostClaimDraws draws the deletion of a claim that exists, if there is one.
var hostClaimDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"HostVolumeClaimDelete": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &storage.ClaimDeleteRequest{ClaimID: "none", WriteOptions: d.now()}
		for c := range csi.HostClaimsFrom(tx, structs.DefaultNamespace, "", mvcc.Page{}) {
			p.ClaimID = c.ID
		}
		return HostVolumeClaimDelete.Encode(p)
	},
}

func init() { maps.Copy(draws, hostClaimDraws) }
