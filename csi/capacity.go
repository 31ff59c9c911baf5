package csi

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/structs/nodecalls"
)

// GetCapacity returns the space for volumes of a kind in a place. It calls only plugins that announce
// GET_CAPACITY, and gives the place only to those with topologies (CSI spec, GetCapacityRequest).
func (c *Client) GetCapacity(
	ctx context.Context, req *nodecalls.ClientCSICapacityRequest,
) (*nodecalls.ClientCSICapacityResponse, error) {
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}

	caps, fault := capabilities([]*structs.CSIVolumeCapability{req.Capability}, req.MountOptions,
		has.SupportsSingleNodeMultiWriter)
	err = c.checkRequest("GetCapacity",
		requirement{"GET_CAPACITY", faultIf(!has.SupportsGetCapacity, "is not announced by the plugin")},
		requirement{"volume_capabilities", fault},
		smallMap("parameters", req.Parameters))
	if err != nil {
		return nil, err
	}

	msg := &spec.GetCapacityRequest{VolumeCapabilities: caps, Parameters: req.Parameters}
	if req.Topology != nil {
		ok, err := c.hasTopology(ctx)
		if err != nil {
			return nil, err
		}
		if ok {
			msg.AccessibleTopology = &spec.Topology{Segments: req.Topology.Segments}
		}
	}

	resp, err := c.controller.GetCapacity(ctx, msg)
	if err != nil {
		return nil, err
	}
	return readCapacity(c, resp)
}

// readCapacity checks and reads an answer.
func readCapacity(
	c *Client, resp *spec.GetCapacityResponse,
) (*nodecalls.ClientCSICapacityResponse, error) {
	largest := resp.GetMaximumVolumeSize().GetValue()
	err := c.checkResponse("GetCapacity",
		notNegative("available_capacity", resp.GetAvailableCapacity()),
		notNegative("maximum_volume_size", largest))
	if err != nil {
		return nil, err
	}

	// A plugin that has space for no volume may say so with a largest size of 0, which is not "unknown" then.
	available := resp.GetAvailableCapacity()
	if resp.GetMaximumVolumeSize() != nil && largest == 0 {
		available = 0
	}
	return &nodecalls.ClientCSICapacityResponse{
		Available: available,
		MaxVolume: min(largest, structs.MaxVolumeBytes),
	}, nil
}
