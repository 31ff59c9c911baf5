package nodeconn

import (
	"context"
	"time"

	"berth/structs"
	"berth/structs/nodecalls"
)

// Detach names the claim whose volume a node is to release.
type Detach struct {
	Claim  structs.CSIClaimKey
	NodeID string
	// ByOperator makes the node repeat also a call that its plugin has rejected for good.
	ByOperator bool
	// Timeout ends each call of the plugin, 0 without a setting: see NodeTimeout.
	Timeout time.Duration
}

// DetachFromNode calls a node to release a claim's volume. Without an error nothing of it is left there.
func DetachFromNode(ctx context.Context, nodes Caller, limit time.Duration, d Detach) error {
	to := Target{
		Nodes: nodes,
		IDs:   []string{d.NodeID},
		Limit: limit,
	}

	req := &nodecalls.ClientCSINodeDetachRequest{
		VolumeID:        d.Claim.VolumeID,
		VolumeNamespace: d.Claim.Namespace,
		AllocID:         d.Claim.AllocID,
		ByOperator:      d.ByOperator,
	}
	req.SetTimeout(d.Timeout)

	_, err := Call(ctx, to, nodecalls.ClientCSINodeDetach, req)
	return err
}
