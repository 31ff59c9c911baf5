package main

import (
	stdrpc "net/rpc"

	"berth/internal/benchshape"
	"berth/structs"
)

const (
	takingTurns = 1600 // writers that claim, each its own volume, and then release, and so on
	readersEach = 10   // of a volume
)

// claimCycle is writers that claim and release in turn: all of them claim before the first releases.
func claimCycle(cfg *config) (operation, error) {
	w, err := load(cfg)
	return func(c *stdrpc.Client, n int) error {
		a, volume, err := w.target(cfg, n%takingTurns, structs.ClaimWrite)
		switch {
		case err != nil:
			return err
		case n/takingTurns%2 == 1:
			return call(c, structs.CSIVolumeUnpublish, w.giveUp(a, volume))
		}
		return call(c, structs.CSIVolumeClaim, w.take(a, volume, structs.ClaimWrite))
	}, err
}

// claimEach gives every volume its readers; a request is the claims of a node's allocations.
func claimEach(cfg *config) (operation, error) {
	w, err := load(cfg)
	if err != nil {
		return nil, err
	}
	var nodes []string
	byNode := map[string]*structs.CSIVolumeClaimRequest{}
	for n := range cfg.volumes * readersEach {
		a := w.allocs[n%len(w.allocs)] // the readers of one volume are consecutive, so each is another allocation
		req := byNode[a.NodeID]
		if req == nil {
			nodes = append(nodes, a.NodeID)
			req = w.take(a, "", structs.ClaimRead)
			req.Claims, byNode[a.NodeID] = nil, req
		}
		claim := benchshape.Claim(benchshape.VolumeID(n/readersEach), 0, structs.ClaimRead)
		claim.AllocID = a.ID
		req.Claims = append(req.Claims, claim)
	}
	return upTo(cfg, len(nodes), func(c *stdrpc.Client, n int) error {
		return call(c, structs.CSIVolumeClaim, byNode[nodes[n]])
	}), nil
}
