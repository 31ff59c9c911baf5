package watch

import (
	"context"

	"berth/api"
	"berth/api/show"
	"berth/api/volumes"
	"berth/structs"
	"berth/structs/storage"
)

// AllocClaim is a volume of an allocation with its claim or nil.
type AllocClaim struct {
	Alias, Volume string // the name in the group, and the ID
	Request       *structs.VolumeRequest
	Claim         *structs.CSIClaim
	Missing       bool // the volume does not exist
}

// GroupOf returns the task group of an allocation in the form of storage.GroupWithHostVolumes, nil if the
// allocation does not have it.
func GroupOf(a *structs.Allocation) *structs.TaskGroup {
	return storage.GroupOfAlloc(a.Job, a)
}

// AllocClaims finds the claims of an allocation's volumes.
func AllocClaims(ctx context.Context, cl *api.Client, a *structs.Allocation) ([]AllocClaim, error) {
	group := GroupOf(a)
	if group == nil {
		return nil, nil
	}

	var out []AllocClaim
	for alias, request := range show.Sorted(group.Volumes) {
		if !request.NeedsClaim() {
			continue
		}

		v := AllocClaim{
			Alias:   alias,
			Request: request,
			Volume:  request.VolumeID(a.Index(), a.ID),
		}

		q := &api.Query{Namespace: a.Namespace}
		claims, _, err := volumes.ClaimsOf(ctx, cl, v.Volume, q)
		v.Missing = structs.IsKind(err, structs.KindNotFound)
		if err != nil && !v.Missing {
			return nil, err
		}

		for _, claim := range claims {
			if claim.AllocID == a.ID {
				v.Claim = claim
			}
		}

		out = append(out, v)
	}

	return out, nil
}
