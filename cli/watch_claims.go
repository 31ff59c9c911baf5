package cli

import (
	"context"

	"berth/api"
	"berth/structs"
)

// allocClaim is a volume of an allocation with its claim or nil.
type allocClaim struct {
	alias, volume string
	request       *structs.VolumeRequest
	claim         *structs.CSIClaim
	missing       bool // the volume does not exist
}

// groupOf returns the task group of an allocation, or nil if the allocation does not have it.
func groupOf(a *structs.Allocation) *structs.TaskGroup {
	if a.Job == nil {
		return nil
	}
	return a.Job.Group(a.TaskGroup)
}

// allocClaims finds the claims of an allocation's volumes.
func allocClaims(ctx context.Context, cl *api.Client, a *structs.Allocation) ([]allocClaim, error) {
	group := groupOf(a)
	if group == nil {
		return nil, nil
	}
	var out []allocClaim
	for alias, request := range sorted(group.Volumes) {
		if request.Type != structs.VolumeTypeCSI {
			continue
		}
		v := allocClaim{
			alias:   alias,
			request: request,
			volume:  request.VolumeID(a.Index()),
		}
		q := &api.Query{Namespace: a.Namespace}
		claims, _, err := cl.VolumeClaims(ctx, v.volume, q)
		v.missing = structs.IsKind(err, structs.KindNotFound)
		if err != nil && !v.missing {
			return nil, err
		}
		for _, claim := range claims {
			if claim.AllocID == a.ID {
				v.claim = claim
			}
		}
		out = append(out, v)
	}
	return out, nil
}
