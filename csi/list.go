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

	// A plugin may ignore max_entries and send its whole list, so this answer may be larger than others.
	resp, err := c.controller.ListVolumes(ctx, msg,
		grpc.MaxCallRecvMsgSize(structs.MaxCSIList))
	if err != nil {
		return nil, err
	}

	page := &nodecalls.ClientCSIListResponse{NextToken: resp.GetNextToken()}
	err = c.checkNextToken(rpc, req.StartingToken, page.NextToken)
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

// checkNextToken checks the token of the next page. A list that returns its own start would never end.
func (c *Client) checkNextToken(rpc, start, next string) error {
	again := next != "" && next == start
	return c.checkResponse(rpc,
		requirement{"next_token", sizeFault(next, structs.MaxCSIToken)},
		requirement{"next_token", faultIf(again, "is the starting token again")})
}

// listedVolume checks and reads one entry of a page. A malformed entry makes the whole page an error: a page
// without it would look complete.
func (c *Client) listedVolume(
	rpc string, i int, e *spec.ListVolumesResponse_Entry, has *structs.CSIControllerInfo,
) (*structs.CSIVolumeExternalStub, error) {
	// The position names an entry in an error, because its ID may be what is wrong.
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
		requirement{at + "volume.accessible_topology", topologiesFault(v.GetAccessibleTopology())},
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
		Topologies:    fromTopologies(v.GetAccessibleTopology()),
	}

	status := e.GetStatus()
	// The IDs of the nodes mean something only if the plugin announces them: empty is then an answer.
	if has.SupportsListVolumesAttachedNodes && status != nil {
		err := c.checkNodeIDs(rpc, at, status.GetPublishedNodeIds())
		if err != nil {
			return nil, err
		}

		stub.PublishedNodesKnown = true
		stub.PublishedExternalNodeIDs = status.GetPublishedNodeIds()
	}

	return stub, nil
}

// checkNodeIDs checks the nodes to which a listed volume is attached. at is the position of the entry.
func (c *Client) checkNodeIDs(rpc, at string, nodes []string) error {
	for _, node := range nodes {
		err := c.checkResponse(rpc, requirement{
			at + "status.published_node_ids", sizeFault(node, structs.MaxCSINodeID),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
