package hostpath

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// NodeGetCapabilities returns the node half's capabilities.
func (d *driver) NodeGetCapabilities(
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
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return resp, nil
}

// NodeGetInfo returns the node's ID and topology.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId: d.cfg.NodeID, MaxVolumesPerNode: d.cfg.MaxVolumes, AccessibleTopology: d.topology(),
	}, nil
}

// lockVolume locks a volume for a call on it and then reads its record. It leaves out the mounts of an
// earlier boot.
func (d *driver) lockVolume(id string) (v *volume, release func(), err error) {
	if _, err := d.volume(id); err != nil {
		return nil, nil, err
	}
	release, err = d.lock(id)
	if err != nil {
		return nil, nil, err
	}
	v, err = d.volume(id)
	if err != nil {
		release()
		return nil, nil, err
	}
	v = v.fresh()
	return v, release, nil
}

// lockVolumeFor claims a volume for a use that it can serve.
func (d *driver) lockVolumeFor(id string, c *csi.VolumeCapability) (v *volume, release func(), err error) {
	if err := checkCapability(c); err != nil {
		return nil, nil, err
	}
	v, release, err = d.lockVolume(id)
	if err != nil {
		return nil, nil, err
	}
	if err := checkAllowed(v.Type, v.FSType, c); err != nil {
		release()
		return nil, nil, err
	}
	return v, release, nil
}

// fresh is a copy of a record to edit.
func (v *volume) fresh() *volume {
	c := *v
	c.Targets = map[string]*target{}
	if c.BootID != bootID() {
		c.BootID, c.Stage = bootID(), nil
		return &c
	}
	for p, t := range v.Targets {
		t := *t
		c.Targets[p] = &t
	}
	if v.Stage != nil {
		s := *v.Stage
		c.Stage = &s
	}
	return &c
}

// saveVolume writes an edited record. The caller continues to edit, so the store keeps a copy.
func (d *driver) saveVolume(v *volume) error { return d.store.volumes.putRecord(v.fresh()) }

// shownPath finds the one of a volume's paths that a call names, if the volume is really there.
func (d *driver) shownPath(v *volume, path string) (capability, error) {
	missing := fail(codes.NotFound, "volume %s is not at %q", v.ID, path)
	real, err := d.checkPath("volume_path", path)
	if err != nil {
		return capability{}, missing
	}
	if v.Stage != nil && v.Stage.Path == real && v.Stage.Use.Block {
		return v.Stage.Use, nil // nothing is mounted there, but that is where it is staged
	}
	shown, err := d.shownAt(v, real)
	if err != nil {
		return capability{}, err
	}
	if t, ok := v.Targets[real]; ok && shown {
		return t.Use, nil
	}
	if v.Stage != nil && v.Stage.Path == real && shown {
		return v.Stage.Use, nil
	}
	return capability{}, missing
}

// NodeGetVolumeStats returns the use of a volume. A directory volume shares its file system with others, so
// it returns the use of that.
func (d *driver) NodeGetVolumeStats(
	_ context.Context, req *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	if req.GetVolumeId() == "" || req.GetVolumePath() == "" {
		return nil, invalidf("volume_id or volume_path is missing")
	}
	v, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	v = v.fresh()
	u, err := d.shownPath(v, req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if u.Block {
		return &csi.NodeGetVolumeStatsResponse{
			Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: v.Size}},
		}, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(req.GetVolumePath(), &st); err != nil {
		return nil, fmt.Errorf("measuring %s: %w", req.GetVolumePath(), err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: int64(st.Blocks) * st.Bsize, Available: int64(st.Bavail) * st.Bsize,
			Used: int64(st.Blocks-st.Bfree) * st.Bsize},
		{
			Unit: csi.VolumeUsage_INODES, Total: int64(st.Files), Available: int64(st.Ffree),
			Used: int64(st.Files - st.Ffree),
		},
	}}, nil
}

// needDir refuses a path that is no directory.
func needDir(field, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return invalidf("%s %s does not exist", field, path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if !info.IsDir() {
		return invalidf("%s %s is not a directory", field, path)
	}
	return nil
}
