package volumes

import (
	"context"

	"berth/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// createGroup is a call for all sources, which have no other one meanwhile.
func (e *endpoints) createGroup(
	ctx context.Context, req *nodecalls.ClientCSIGroupRequest,
) (*nodecalls.ClientCSIGroupResponse, error) {
	c := Call{
		Volume: "group name:" + req.Name,
		Others: req.SourceExternalIDs,
		RPC:    "CreateVolumeGroupSnapshot",
	}
	create := func(ctx context.Context, c *Conn) (*nodecalls.ClientCSIGroupResponse, error) {
		g, err := csi.Groups{Client: c.Client}.Create(ctx, req)
		if csi.Code(err) == structs.CSICodeExhausted {
			return &nodecalls.ClientCSIGroupResponse{Exhausted: err.Error()}, nil
		}
		return &nodecalls.ClientCSIGroupResponse{Group: g}, err
	}
	return callController(ctx, controllerCall{e, req, c}, create)
}

func (e *endpoints) deleteGroup(
	ctx context.Context, req *nodecalls.ClientCSIGroupDeleteRequest,
) (*structs.Empty, error) {
	c := Call{
		Volume: "group:" + req.ExternalID,
		Others: req.SourceExternalIDs,
		RPC:    "DeleteVolumeGroupSnapshot",
	}
	return callController(ctx, controllerCall{e, req, c},
		withEmptyReply(func(ctx context.Context, c *Conn) error {
			return csi.Groups{Client: c.Client}.Delete(ctx, req)
		}))
}
