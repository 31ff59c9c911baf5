package csi

import (
	"cmp"
	"context"
	"fmt"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/structs/nodecalls"
)

// CreateVolume creates the volume named req.Name, or finds it again. If the plugin created a volume of the
// wrong size, the answer comes with the error, so that the caller can delete it.
func (c *Client) CreateVolume(
	ctx context.Context, req *nodecalls.ClientCSICreateRequest,
) (*nodecalls.ClientCSICreateResponse, error) {
	const rpc = "CreateVolume"
	// The capabilities come first, because they decide which fields the request may have.
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}

	caps, fault := capabilities(req.Capabilities,
		req.MountOptions, has.SupportsSingleNodeMultiWriter)
	err = c.checkRequest(rpc,
		requirement{"name", volumeNameFault(req.Name)},
		requirement{"capacity_range", capacityFault(req.Capacity)},
		requirement{"volume_capabilities", fault},
		requirement{"volume_content_source", sourceFault(req, has)},
		smallMap("parameters", req.Parameters),
		mutable(has, req.MutableParameters),
		smallMap("mutable_parameters", req.MutableParameters))
	if err != nil {
		return nil, err
	}

	msg := &spec.CreateVolumeRequest{
		Name:                req.Name,
		CapacityRange:       toRange(req.Capacity),
		VolumeCapabilities:  caps,
		Parameters:          req.Parameters,
		MutableParameters:   req.MutableParameters,
		Secrets:             req.Secrets,
		VolumeContentSource: toSource(req.CloneID, req.SnapshotID),
	}

	// This may call the plugin, so it follows the checks that call nothing.
	msg.AccessibilityRequirements, err = c.topologyRequirement(ctx, req.Topologies)
	if err != nil {
		return nil, err
	}

	resp, err := c.controller.CreateVolume(ctx, msg)
	if err != nil {
		return nil, err
	}

	return c.checkCreated(rpc, resp.GetVolume(), req.Capacity)
}

// checkCreated checks and reads the volume of an answer.
func (c *Client) checkCreated(
	rpc string, v *spec.Volume, asked nodecalls.CSICapacityRange,
) (*nodecalls.ClientCSICreateResponse, error) {
	err := c.checkResponse(rpc,
		requirement{"volume", faultIf(v == nil, "is missing")},
		requirement{"volume.volume_id", idFault(v.GetVolumeId(), structs.MaxCSIID)},
		requirement{"volume.volume_context", mapFault(v.GetVolumeContext(), structs.MaxCSIContext)},
		requirement{"volume.accessible_topology", topologiesFault(v.GetAccessibleTopology())})
	if err != nil {
		return nil, err
	}

	// The answer is complete before the size is checked: the caller needs the ID to delete the volume.
	resp := &nodecalls.ClientCSICreateResponse{
		ExternalID: v.GetVolumeId(),
		Capacity:   v.GetCapacityBytes(),
		Context:    v.GetVolumeContext(),
		Topologies: fromTopologies(v.GetAccessibleTopology()),
	}

	return resp, c.checkResponse(rpc,
		requirement{"volume.capacity_bytes", rangeFault(v.GetCapacityBytes(), asked)})
}

// sourceFault returns the reason for which a volume cannot be made from a source, "" for none.
func sourceFault(req *nodecalls.ClientCSICreateRequest, has *structs.CSIControllerInfo) string {
	// A plugin without the capability may ignore the source and make an empty volume.
	switch {
	case req.CloneID != "" && req.SnapshotID != "":
		return "both a volume and a snapshot are given"
	case req.CloneID != "" && !has.SupportsClone:
		return "the plugin cannot clone volumes"
	case req.SnapshotID != "" && !has.SupportsCreateDeleteSnapshot:
		return "the plugin has no volume snapshots"
	}
	return ""
}

// topologyRequirement returns the topology to send: none to a plugin that knows no topology.
func (c *Client) topologyRequirement(
	ctx context.Context, r *structs.CSITopologyRequest,
) (*spec.TopologyRequirement, error) {
	req := toRequirement(r)
	if req == nil {
		return nil, nil
	}
	ok, err := c.hasTopology(ctx)
	if err != nil || !ok {
		return nil, err
	}
	return req, nil
}

// DeleteVolume deletes a volume. A volume that does not exist is no error.
func (c *Client) DeleteVolume(ctx context.Context, req *nodecalls.ClientCSIDeleteRequest) error {
	err := c.checkRequest("DeleteVolume", notEmpty("volume_id", req.ExternalID))
	if err != nil {
		return err
	}
	_, err = c.controller.DeleteVolume(ctx, &spec.DeleteVolumeRequest{
		VolumeId: req.ExternalID,
		Secrets:  req.Secrets,
	})
	return err
}

// ControllerPublishVolume makes a volume reachable from a node. It sends ReadOnly only to plugins that know a
// read-only attach. NodePublishVolume makes mounts read-only in any case.
func (c *Client) ControllerPublishVolume(
	ctx context.Context, req *nodecalls.ClientCSIAttachRequest,
) (*nodecalls.ClientCSIAttachResponse, error) {
	const rpc = "ControllerPublishVolume"
	// The plugin's own capabilities decide on the wire form of the access mode, so they come first.
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}

	u := &Use{
		AccessMode:     req.AccessMode,
		AttachmentMode: req.AttachmentMode,
		MountOptions:   req.MountOptions,
	}

	cap, fault := u.capability(has.SupportsSingleNodeMultiWriter)
	err = c.checkRequest(rpc, notEmpty("volume_id", req.ExternalID),
		notEmpty("node_id", req.ExternalNodeID),
		requirement{"volume_capability", fault})
	if err != nil {
		return nil, err
	}

	resp, err := c.controller.ControllerPublishVolume(ctx, &spec.ControllerPublishVolumeRequest{
		VolumeId:         req.ExternalID,
		NodeId:           req.ExternalNodeID,
		VolumeCapability: cap,
		Readonly:         req.ReadOnly && has.SupportsReadOnlyAttach,
		Secrets:          req.Secrets,
		VolumeContext:    req.VolumeContext,
	})
	if err != nil {
		return nil, err
	}

	// From here on the volume is attached, also if its context is too large: that error is not final, and the
	// caller has to detach.
	published := resp.GetPublishContext()
	err = c.checkResponse(rpc,
		requirement{"publish_context", mapFault(published, structs.MaxCSIContext)})
	return &nodecalls.ClientCSIAttachResponse{PublishContext: published}, err
}

// ControllerUnpublishVolume detaches a volume from a node. The node's ID must not be empty: to a plugin that
// means all nodes.
func (c *Client) ControllerUnpublishVolume(ctx context.Context, req *nodecalls.ClientCSIDetachRequest) error {
	err := c.checkRequest("ControllerUnpublishVolume", notEmpty("volume_id", req.ExternalID),
		notEmpty("node_id", req.ExternalNodeID))
	if err != nil {
		return err
	}
	_, err = c.controller.ControllerUnpublishVolume(ctx, &spec.ControllerUnpublishVolumeRequest{
		VolumeId: req.ExternalID,
		NodeId:   req.ExternalNodeID,
		Secrets:  req.Secrets,
	})
	return err
}

// ValidateVolumeCapabilities checks whether an existing volume supports the capabilities. Nil means yes. It
// compares the confirmed capabilities with the requested ones, because an old plugin confirms fields that it
// does not know.
func (c *Client) ValidateVolumeCapabilities(
	ctx context.Context, req *nodecalls.ClientCSIValidateRequest,
) error {
	const rpc = "ValidateVolumeCapabilities"
	has, err := c.controllerHas(ctx)
	if err != nil {
		return err
	}

	caps, fault := capabilities(req.Capabilities,
		req.MountOptions, has.SupportsSingleNodeMultiWriter)
	err = c.checkRequest(rpc,
		notEmpty("volume_id", req.ExternalID), requirement{"volume_capabilities", fault},
		smallMap("parameters", req.Parameters),
		mutable(has, req.MutableParameters),
		smallMap("mutable_parameters", req.MutableParameters))
	if err != nil {
		return err
	}

	msg := &spec.ValidateVolumeCapabilitiesRequest{
		VolumeId:           req.ExternalID,
		VolumeContext:      req.Context,
		VolumeCapabilities: caps,
		Parameters:         req.Parameters,
		MutableParameters:  req.MutableParameters,
		Secrets:            req.Secrets,
	}

	resp, err := c.controller.ValidateVolumeCapabilities(ctx, msg)
	if err != nil {
		return err
	}

	// The reason is the plugin's free text, which may quote the request with its secrets.
	if why := unconfirmedPart(msg, resp); why != "" {
		return structs.Invalidf("%s: %s: volume %q does not support the requested use: %s",
			c.pluginTitle(), rpc, req.ExternalID,
			sanitize(why, req.Secrets))
	}

	return nil
}

// unconfirmedPart describes the part of a request that a plugin did not confirm, "" for none.
func unconfirmedPart(
	req *spec.ValidateVolumeCapabilitiesRequest, resp *spec.ValidateVolumeCapabilitiesResponse,
) string {
	if resp.GetConfirmed() == nil {
		return cmp.Or(resp.GetMessage(), "not confirmed, and no reason given")
	}
	for _, want := range req.GetVolumeCapabilities() {
		if !confirms(resp.GetConfirmed().GetVolumeCapabilities(), want) {
			return fmt.Sprintf("access mode %s as %s is not among the confirmed; %s",
				want.GetAccessMode().GetMode(),
				accessType(want), resp.GetMessage())
		}
	}
	return ""
}

// confirms searches the confirmed capabilities for one with the same access mode and type. A file-system type
// and mount flags that the plugin left out of its answer count as confirmed.
func confirms(list []*spec.VolumeCapability, want *spec.VolumeCapability) bool {
	for _, got := range list {
		fs := got.GetMount().GetFsType()
		if got.GetAccessMode().GetMode() == want.GetAccessMode().GetMode() &&
			accessType(got) == accessType(want) &&
			(fs == "" || want.GetMount().GetFsType() == "" ||
				fs == want.GetMount().GetFsType()) {
			return true
		}
	}
	return false
}

// accessType returns the attachment mode of a capability. Each request has one of the two types. An answer
// without a type counts as a file system.
func accessType(cap *spec.VolumeCapability) string {
	if cap.GetBlock() != nil {
		return string(structs.CSIBlockDevice)
	}
	return string(structs.CSIFileSystem)
}

// ControllerExpandVolume expands a volume. The answer reports whether the node has to expand it, too.
func (c *Client) ControllerExpandVolume(
	ctx context.Context, req *nodecalls.ClientCSIExpandRequest,
) (*nodecalls.ClientCSIExpandResponse, error) {
	const rpc = "ControllerExpandVolume"
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}

	msg := &spec.ControllerExpandVolumeRequest{
		VolumeId:      req.ExternalID,
		CapacityRange: toRange(req.Capacity),
		Secrets:       req.Secrets,
	}

	// The field is optional (CSI spec, ControllerExpandVolumeRequest).
	fault := ""
	if c := req.Capability; c != nil {
		u := &Use{AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode}
		msg.VolumeCapability, fault = u.capability(has.SupportsSingleNodeMultiWriter)
	}

	err = c.checkRequest(rpc,
		notEmpty("volume_id", req.ExternalID), requirement{"volume_capability", fault},
		requirement{"capacity_range", capacityFault(req.Capacity)},
		requirement{"capacity_range", faultIf(msg.CapacityRange == nil, "is missing")})
	if err != nil {
		return nil, err
	}

	resp, err := c.controller.ControllerExpandVolume(ctx, msg)
	if err != nil {
		return nil, err
	}

	// A volume that is larger already is no failure (CSI spec, ControllerExpandVolume).
	atLeast := nodecalls.CSICapacityRange{RequiredBytes: req.Capacity.RequiredBytes}
	size := resp.GetCapacityBytes()
	err = c.checkResponse(rpc,
		requirement{"capacity_bytes", rangeFault(size, atLeast)})
	return &nodecalls.ClientCSIExpandResponse{
		Capacity:              size,
		NodeExpansionRequired: resp.GetNodeExpansionRequired(),
	}, err
}
