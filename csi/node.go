package csi

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/structs/nodecalls"
)

// Use is the use of a volume on a node: the common fields of stage and publish. PublishContext is the answer
// of ControllerPublishVolume (nil if the plugin does not attach).
type Use struct {
	VolumeID       string // the plugin's volume_id
	AccessMode     structs.CSIAccessMode
	AttachmentMode structs.CSIAttachmentMode
	MountOptions   *structs.CSIMountOptions
	MountGroup     string // a gid; left out for plugins that do not know it
	PublishContext structs.Secrets
	VolumeContext  map[string]string
	Secrets        structs.Secrets
}

// StageRequest mounts a volume once on a node. Paths are in the plugin's own scope. StagingPath is an
// existing directory, the only one for the volume on this node.
type StageRequest struct {
	Use
	StagingPath string
}

// PublishRequest binds a volume for one user. The parent of TargetPath exists. The plugin creates TargetPath
// itself. StagingPath is "" for plugins that do not stage.
type PublishRequest struct {
	Use
	StagingPath string
	TargetPath  string
	ReadOnly    bool
}

// capability encodes a use for this node half.
func (c *Client) capability(
	ctx context.Context, u Use,
) (cap *spec.VolumeCapability, fault string, err error) {
	has, err := c.nodeHas(ctx)
	if err != nil {
		return nil, "", err
	}
	// A plugin without the capability may reject a field that it does not know.
	if !has.node.SupportsMountGroup {
		u.MountGroup = ""
	}
	cap, fault = u.capability(has.node.MultiWriter)
	return cap, fault, nil
}

// NodeStageVolume mounts a volume at its staging path. The call is idempotent. After a failure that is not
// final the volume may be staged, and has to be unstaged or staged again.
func (c *Client) NodeStageVolume(ctx context.Context, req *StageRequest) error {
	cap, fault, err := c.capability(ctx, req.Use)
	if err != nil {
		return err
	}

	err = c.checkRequest("NodeStageVolume",
		notEmpty("volume_id", req.VolumeID),
		absolutePath("staging_target_path", req.StagingPath),
		requirement{"volume_capability", fault})
	if err != nil {
		return err
	}

	_, err = c.node.NodeStageVolume(ctx, &spec.NodeStageVolumeRequest{
		VolumeId:          req.VolumeID,
		PublishContext:    req.PublishContext,
		StagingTargetPath: req.StagingPath,
		VolumeCapability:  cap,
		Secrets:           req.Secrets,
		VolumeContext:     req.VolumeContext,
	})

	return err
}

// NodeUnstageVolume undoes NodeStageVolume. Not-found means that the plugin does not know the volume.
func (c *Client) NodeUnstageVolume(ctx context.Context, volumeID, stagingPath string) error {
	err := c.checkRequest("NodeUnstageVolume",
		notEmpty("volume_id", volumeID), absolutePath("staging_target_path", stagingPath))
	if err != nil {
		return err
	}
	// The requests that undo a stage or a publication have no capability, so no other call to the plugin has
	// to succeed before them.
	_, err = c.node.NodeUnstageVolume(ctx,
		&spec.NodeUnstageVolumeRequest{VolumeId: volumeID, StagingTargetPath: stagingPath})
	return err
}

// NodePublishVolume makes a volume visible at the target path.
func (c *Client) NodePublishVolume(ctx context.Context, req *PublishRequest) error {
	cap, fault, err := c.capability(ctx, req.Use)
	if err != nil {
		return err
	}

	err = c.checkRequest("NodePublishVolume", notEmpty("volume_id", req.VolumeID),
		absolutePath("target_path", req.TargetPath),
		optionalPath("staging_target_path", req.StagingPath), requirement{"volume_capability", fault})
	if err != nil {
		return err
	}

	_, err = c.node.NodePublishVolume(ctx, &spec.NodePublishVolumeRequest{
		VolumeId:          req.VolumeID,
		PublishContext:    req.PublishContext,
		StagingTargetPath: req.StagingPath,
		TargetPath:        req.TargetPath,
		VolumeCapability:  cap,
		Readonly:          req.ReadOnly,
		Secrets:           req.Secrets,
		VolumeContext:     req.VolumeContext,
	})

	return err
}

// optionalPath accepts "", which a plugin that does not stage gets.
func optionalPath(field, path string) requirement {
	if path == "" {
		return requirement{}
	}
	return absolutePath(field, path)
}

// NodeUnpublishVolume undoes NodePublishVolume. The plugin has to remove the target path; not all plugins do.
func (c *Client) NodeUnpublishVolume(ctx context.Context, volumeID, targetPath string) error {
	err := c.checkRequest("NodeUnpublishVolume",
		notEmpty("volume_id", volumeID), absolutePath("target_path", targetPath))
	if err != nil {
		return err
	}
	_, err = c.node.NodeUnpublishVolume(ctx,
		&spec.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: targetPath})
	return err
}

// NodeExpandRequest makes a node expand a volume that its controller has expanded. VolumePath is the path at
// which it is staged or published.
type NodeExpandRequest struct {
	Use
	VolumePath  string
	StagingPath string
	Capacity    nodecalls.CSICapacityRange
}

// NodeExpandVolume grows the volume on its node and returns its size, 0 if the plugin reports none. An error
// of kind precondition means that the volume is in use: the next stage completes the expansion.
func (c *Client) NodeExpandVolume(ctx context.Context, req *NodeExpandRequest) (int64, error) {
	const rpc = "NodeExpandVolume"
	cap, fault, err := c.capability(ctx, req.Use)
	if err != nil {
		return 0, err
	}

	err = c.checkRequest(rpc, notEmpty("volume_id", req.VolumeID),
		absolutePath("volume_path", req.VolumePath),
		optionalPath("staging_target_path", req.StagingPath),
		requirement{"capacity_range", capacityFault(req.Capacity)},
		requirement{"volume_capability", fault})
	if err != nil {
		return 0, err
	}

	resp, err := c.node.NodeExpandVolume(ctx, &spec.NodeExpandVolumeRequest{
		VolumeId:          req.VolumeID,
		VolumePath:        req.VolumePath,
		StagingTargetPath: req.StagingPath,
		CapacityRange:     toRange(req.Capacity),
		VolumeCapability:  cap,
		Secrets:           req.Secrets,
	})
	if err != nil {
		return 0, err
	}

	size := resp.GetCapacityBytes()
	return size, c.checkResponse(rpc,
		requirement{"capacity_bytes", rangeFault(size, req.Capacity)})
}
