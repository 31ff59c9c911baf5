package csi

import (
	"context"
	"fmt"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"berth/structs"
)

// ListVolumes returns one page. Pages are not a consistent view: a volume may be missing from one pass or
// come twice. The attachments of a volume are read only from plugins that announce them.
func (c *Client) ListVolumes(
	ctx context.Context, req *structs.ClientCSIListRequest,
) (*structs.ClientCSIListResponse, error) {
	const rpc = "ListVolumes"
	if err := c.checkRequest(rpc, notNegative("max_entries", int64(req.MaxEntries))); err != nil {
		return nil, err
	}
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}
	msg := &spec.ListVolumesRequest{MaxEntries: req.MaxEntries, StartingToken: req.StartingToken}
	resp, err := call(ctx, c, rpc, c.controller.ListVolumes, msg, grpc.MaxCallRecvMsgSize(maxList))
	if err != nil {
		return nil, err
	}
	if err := c.checkResponse(rpc, atMostBytes("next_token", resp.GetNextToken(), maxToken)); err != nil {
		return nil, err
	}
	page := &structs.ClientCSIListResponse{NextToken: resp.GetNextToken()}
	if page.NextToken != "" && page.NextToken == req.StartingToken {
		return nil, c.badResponse(rpc, "next_token", "is the starting token again")
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
	v, at := e.GetVolume(), fmt.Sprintf("entries[%d].volume", i)
	from := v.GetContentSource()
	clone, snapshot := from.GetVolume().GetVolumeId(), from.GetSnapshot().GetSnapshotId()
	err := c.checkResponse(rpc,
		requirement{at, missingFault(v == nil)},
		requirement{at + ".volume_id", idFault(v.GetVolumeId(), maxID)},
		notNegative(at+".capacity_bytes", v.GetCapacityBytes()),
		requirement{at + ".volume_context", contextFault(v.GetVolumeContext())},
		atMostBytes(at+".content_source", clone+snapshot, maxID))
	if err != nil {
		return nil, err
	}
	stub := &structs.CSIVolumeExternalStub{
		ExternalID: v.GetVolumeId(), CapacityBytes: v.GetCapacityBytes(), VolumeContext: v.GetVolumeContext(),
		CloneID: clone, SnapshotID: snapshot,
	}
	if has.SupportsListVolumesAttachedNodes && e.GetStatus() != nil {
		for _, node := range e.GetStatus().GetPublishedNodeIds() {
			err := c.checkResponse(rpc,
				atMostBytes(fmt.Sprintf("entries[%d].status.published_node_ids", i), node, structs.MaxCSINodeID))
			if err != nil {
				return nil, err
			}
		}
		stub.PublishedNodesKnown = true
		stub.PublishedExternalNodeIDs = e.GetStatus().GetPublishedNodeIds()
	}
	return stub, nil
}

// CapacityRequest is the request for the space for volumes of one kind in one place (nil: everywhere).
type CapacityRequest struct {
	Capabilities []*structs.CSIVolumeCapability // may be empty
	MountOptions *structs.CSIMountOptions
	Parameters   map[string]string
	Topology     *structs.CSITopology
}

// Capacity is the available space, in bytes; 0 for the sizes of a volume means that the plugin reported none.
type Capacity struct {
	Available int64
	MaxVolume int64
	MinVolume int64
}

// GetCapacity returns the available space. Topology is sent only to plugins with topology.
func (c *Client) GetCapacity(ctx context.Context, req *CapacityRequest) (*Capacity, error) {
	const rpc = "GetCapacity"
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}
	msg := &spec.GetCapacityRequest{Parameters: req.Parameters}
	if len(req.Capabilities) > 0 {
		caps, fault := capabilities(req.Capabilities, req.MountOptions, has.SupportsSingleNodeMultiWriter)
		if fault != "" {
			return nil, c.badRequest(rpc, "volume_capabilities", fault)
		}
		msg.VolumeCapabilities = caps
	}
	if req.Topology != nil {
		ok, err := c.hasTopology(ctx)
		if err != nil {
			return nil, err
		}
		if ok {
			msg.AccessibleTopology = toTopology(req.Topology)
		}
	}
	resp, err := call(ctx, c, rpc, c.controller.GetCapacity, msg)
	if err != nil {
		return nil, err
	}
	room := &Capacity{
		resp.GetAvailableCapacity(), resp.GetMaximumVolumeSize().GetValue(), resp.GetMinimumVolumeSize().GetValue(),
	}
	err = c.checkResponse(rpc, notNegative("available_capacity", room.Available),
		notNegative("maximum_volume_size", room.MaxVolume), notNegative("minimum_volume_size", room.MinVolume))
	if err != nil {
		return nil, err
	}
	return room, nil
}
