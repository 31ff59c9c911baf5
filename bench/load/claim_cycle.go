package main

import (
	stdrpc "net/rpc"

	"berth/bench/shape"
	"berth/structs"
)

const (
	cyclingWriters   = 1600 // writers that claim, each its own volume, and then release, and so on
	readersPerVolume = 10   // of a volume
)

// claimCycle has writers claim and release in turn: all of them claim before the first one releases.
func claimCycle(cfg *config) (operation, error) {
	w, err := loadClaimants(cfg)
	return func(c *stdrpc.Client, n int) error {
		a, volume, err := w.target(cfg, n%cyclingWriters, structs.ClaimWrite)
		switch {
		case err != nil:
			return err
		case n/cyclingWriters%2 == 1:
			return call(c, structs.CSIVolumeUnpublish, w.releaseRequest(a, volume))
		}
		return call(c, structs.CSIVolumeClaim,
			w.claimRequest(a, volume, structs.ClaimWrite))
	}, err
}

// claimEach gives every volume its readers. A request has the claims of all allocations of one node.
func claimEach(cfg *config) (operation, error) {
	w, err := loadClaimants(cfg)
	if err != nil {
		return nil, err
	}
	var nodes []string
	byNode := map[string]*structs.CSIVolumeClaimRequest{}
	for n := range cfg.volumes * readersPerVolume {
		a := w.allocs[n%len(w.allocs)] // the readers of one volume are consecutive, so each is another allocation
		req := byNode[a.NodeID]
		if req == nil {
			nodes = append(nodes, a.NodeID)
			req = w.claimRequest(a, "", structs.ClaimRead)
			req.Claims, byNode[a.NodeID] = nil, req
		}
		claim := shape.Claim(shape.VolumeID(n/readersPerVolume), 0, structs.ClaimRead)
		claim.AllocID = a.ID
		req.Claims = append(req.Claims, claim)
	}
	return boundedTo(cfg, len(nodes), func(c *stdrpc.Client, n int) error {
		return call(c, structs.CSIVolumeClaim, byNode[nodes[n]])
	}), nil
}
