package volumes

import (
	"context"

	"berth/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// createSnapshot is a call for the source, which has no other one meanwhile.
func (e *endpoints) createSnapshot(
	ctx context.Context, req *nodecalls.ClientCSISnapshotRequest,
) (*nodecalls.ClientCSISnapshotResponse, error) {
	c := Call{
		Volume: req.SourceExternalID,
		RPC:    "CreateSnapshot",
		Where:  "name:" + req.Name,
	}
	create := func(ctx context.Context, c *Conn) (*nodecalls.ClientCSISnapshotResponse, error) {
		s, err := csi.Snapshots{Client: c.Client}.Create(ctx, req)
		if csi.Code(err) == structs.CSICodeExhausted {
			return &nodecalls.ClientCSISnapshotResponse{Exhausted: err.Error()}, nil
		}
		return &nodecalls.ClientCSISnapshotResponse{Snapshot: s}, err
	}
	return callController(ctx, controllerCall{e, req, c}, create)
}

func (e *endpoints) deleteSnapshot(
	ctx context.Context, req *nodecalls.ClientCSISnapshotDeleteRequest,
) (*structs.Empty, error) {
	// The IDs of volumes and of snapshots may be equal.
	c := Call{Volume: "snapshot:" + req.ExternalID, RPC: "DeleteSnapshot"}
	return callController(ctx, controllerCall{e, req, c},
		withEmptyReply(func(ctx context.Context, c *Conn) error {
			return csi.Snapshots{Client: c.Client}.Delete(ctx, req)
		}))
}

// listSnapshots is about no single snapshot and waits for none.
func (e *endpoints) listSnapshots(
	ctx context.Context, req *nodecalls.ClientCSISnapshotListRequest,
) (*nodecalls.ClientCSISnapshotListResponse, error) {
	conn, err := e.controller(req)
	if err != nil {
		return nil, err
	}

	if req.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, req.Timeout)
		defer cancel()
	}

	resp, err := csi.Snapshots{Client: conn.Client}.List(ctx, req)
	if resp != nil && resp.Snapshots == nil {
		resp.Snapshots = []*storage.CSISnapshot{}
	}
	return resp, wireError(err)
}
