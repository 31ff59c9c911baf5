package csi

import (
	"context"
	"fmt"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"berth/structs"
	"berth/structs/nodecalls"
)

// ListVolumes returns one page. Pages are not a consistent view: a volume may be missing from one pass or
// come twice. The attachments of a volume are read only from plugins that announce them.
func (c *Client) ListVolumes(
	ctx context.Context, req *nodecalls.ClientCSIListRequest,
) (*nodecalls.ClientCSIListResponse, error) {
	const rpc = "ListVolumes"
	err := c.checkRequest(rpc,
		notNegative("max_entries", int64(req.MaxEntries)))
	if err != nil {
		return nil, err
	}

	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}

	msg := &spec.ListVolumesRequest{
		MaxEntries:    req.MaxEntries,
		StartingToken: req.StartingToken,
	}
	resp, err := c.controller.ListVolumes(ctx, msg,
		grpc.MaxCallRecvMsgSize(structs.MaxCSIList))
	if err != nil {
		return nil, err
	}

	page := &nodecalls.ClientCSIListResponse{NextToken: resp.GetNextToken()}
	// A list that returns its own start would never end.
	again := page.NextToken != "" && page.NextToken == req.StartingToken
	err = c.checkResponse(rpc,
		requirement{"next_token", sizeFault(page.NextToken, structs.MaxCSIToken)},
		requirement{"next_token", faultIf(again, "is the starting token again")})
	if err != nil {
		return nil, err
	}

	for i, e := range resp.GetEntries() {
		stub, err := c.listedVolume(rpc, i, e, has)
		if err != nil {
			return nil, err
		}

		page.Volumes = append(page.Volumes, stub)
	}

	return page, nil
}

func (c *Client) listedVolume(
	rpc string, i int, e *spec.ListVolumesResponse_Entry, has *structs.CSIControllerInfo,
) (*structs.CSIVolumeExternalStub, error) {
	at := fmt.Sprintf("entries[%d].", i)
	v := e.GetVolume()
	from := v.GetContentSource()
	clone := from.GetVolume().GetVolumeId()
	snapshot := from.GetSnapshot().GetSnapshotId()
	err := c.checkResponse(rpc,
		requirement{at + "volume", faultIf(v == nil, "is missing")},
		requirement{at + "volume.volume_id", idFault(v.GetVolumeId(), structs.MaxCSIID)},
		notNegative(at+"volume.capacity_bytes", v.GetCapacityBytes()),
		requirement{at + "volume.volume_context", mapFault(v.GetVolumeContext(), structs.MaxCSIContext)},
		requirement{at + "volume.content_source", sizeFault(clone+snapshot, structs.MaxCSIID)})
	if err != nil {
		return nil, err
	}

	stub := &structs.CSIVolumeExternalStub{
		ExternalID:    v.GetVolumeId(),
		CapacityBytes: v.GetCapacityBytes(),
		VolumeContext: v.GetVolumeContext(),
		CloneID:       clone,
		SnapshotID:    snapshot,
	}

	status := e.GetStatus()
	// The IDs of the nodes mean something only if the plugin announces them: empty is then an answer.
	if has.SupportsListVolumesAttachedNodes && status != nil {
		for _, node := range status.GetPublishedNodeIds() {
			err := c.checkResponse(rpc, requirement{
				at + "status.published_node_ids", sizeFault(node, structs.MaxCSINodeID),
			})
			if err != nil {
				return nil, err
			}
		}

		stub.PublishedNodesKnown = true
		stub.PublishedExternalNodeIDs = status.GetPublishedNodeIds()
	}

	return stub, nil
}
