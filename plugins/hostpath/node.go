package hostpath

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

// NodeGetCapabilities returns the node half's capabilities.
func (d *node) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	resp := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{
				Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return resp, nil
}

// NodeGetInfo returns the node's ID and topology.
func (d *node) NodeGetInfo(
	context.Context, *csi.NodeGetInfoRequest,
) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId:             d.cfg.NodeID,
		MaxVolumesPerNode:  d.cfg.MaxVolumes,
		AccessibleTopology: d.topology(),
	}, nil
}

// lockVolume locks a volume for a call and then reads its record, without the mounts of an earlier boot.
func (d *node) lockVolume(id string) (v *disk.Volume, release func(), err error) {
	// An unknown volume is not found, also while a call has the lock of its ID.
	_, err = d.volume(id)
	if err != nil {
		return nil, nil, err
	}
	release, err = d.lockKeys(id)
	if err != nil {
		return nil, nil, err
	}
	v, err = d.volume(id)
	if err != nil {
		release()
		return nil, nil, err
	}
	return v.EditCopy(), release, nil
}

// lockVolumeFor is lockVolume for a call with a capability, which the volume must support.
func (d *node) lockVolumeFor(
	id string, c *csi.VolumeCapability,
) (v *disk.Volume, release func(), err error) {
	err = checkCapability(c)
	if err != nil {
		return nil, nil, err
	}
	v, release, err = d.lockVolume(id)
	if err != nil {
		return nil, nil, err
	}
	err = checkAllowed(v.Type, v.FSType, c)
	if err != nil {
		release()
		return nil, nil, err
	}
	return v, release, nil
}

// saveVolume writes an edited record. The caller may continue to edit, so the store keeps a copy.
func (d *driver) saveVolume(v *disk.Volume) error {
	return d.store.Volumes.Put(v.EditCopy())
}

// useAt returns the capability with which a volume is staged or published at the path of a call. It checks
// that the volume is mounted there.
func (d *node) useAt(v *disk.Volume, path string) (disk.Capability, error) {
	missing := disk.Faultf(codes.NotFound, "volume %s is not at %q", v.ID, path)
	real, err := d.checkPath("volume_path", path)
	if err != nil {
		return disk.Capability{}, missing
	}

	isStage := v.Stage != nil && v.Stage.Path == real
	if isStage && v.Stage.Use.Block {
		return v.Stage.Use, nil // a block volume has no mount at its staging path
	}

	shown, err := d.shownAt(v, real)
	if err != nil {
		return disk.Capability{}, err
	}

	t, published := v.Targets[real]
	switch {
	case shown && published:
		return t.Use, nil
	case shown && isStage:
		return v.Stage.Use, nil
	}

	return disk.Capability{}, missing
}

// NodeGetVolumeStats returns the use of a volume. For a directory volume it returns the use of the file
// system that the volume shares with others.
func (d *node) NodeGetVolumeStats(
	_ context.Context, req *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	if req.GetVolumeId() == "" || req.GetVolumePath() == "" {
		return nil, disk.Invalidf("volume_id or volume_path is missing")
	}

	// This takes no lock: it changes nothing, and a measurement must not fail as long as a copy runs.
	v, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	v = v.EditCopy()
	u, err := d.useAt(v, req.GetVolumePath())
	if err != nil {
		return nil, err
	}

	if u.Block {
		bytes := &csi.VolumeUsage{Unit: csi.VolumeUsage_BYTES, Total: v.Size}
		return &csi.NodeGetVolumeStatsResponse{
			Usage: []*csi.VolumeUsage{bytes},
		}, nil
	}

	return fileSystemStats(req.GetVolumePath())
}

// fileSystemStats returns the use of the file system at a path.
func fileSystemStats(path string) (*csi.NodeGetVolumeStatsResponse, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	if err != nil {
		return nil, fmt.Errorf("measuring %s: %w", path, err)
	}

	bytes := &csi.VolumeUsage{
		Unit:      csi.VolumeUsage_BYTES,
		Total:     int64(st.Blocks) * st.Bsize,
		Available: int64(st.Bavail) * st.Bsize,
		Used:      int64(st.Blocks-st.Bfree) * st.Bsize,
	}

	inodes := &csi.VolumeUsage{
		Unit:      csi.VolumeUsage_INODES,
		Total:     int64(st.Files),
		Available: int64(st.Ffree),
		Used:      int64(st.Files - st.Ffree),
	}

	return &csi.NodeGetVolumeStatsResponse{
		Usage: []*csi.VolumeUsage{bytes, inodes},
	}, nil
}

// checkDir rejects a path that is not a directory.
func checkDir(field, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return disk.Invalidf("%s %s does not exist", field, path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if !info.IsDir() {
		return disk.Invalidf("%s %s is not a directory", field, path)
	}
	return nil
}
