package hostpath

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// ControllerExpandVolume reserves the capacity and grows a volume. It also grows the file system if the
// volume is not in use. Otherwise the node does this.
func (d *driver) ControllerExpandVolume(
	_ context.Context, req *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	v, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	r := req.GetCapacityRange()
	if r.GetRequiredBytes() == 0 && r.GetLimitBytes() == 0 {
		return nil, invalidf("capacity_range is missing")
	}
	if err := checkRange(r); err != nil {
		return nil, err
	}
	release, err := d.lock(v.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	v, err = d.volume(v.ID)
	if err != nil { // as it is now that it is ours
		return nil, err
	}
	size := rounded(v.Type, max(r.GetRequiredBytes(), v.Size), r.GetLimitBytes())
	if limit := r.GetLimitBytes(); limit > 0 && size > limit {
		return nil, fail(codes.OutOfRange, "volume %s has %d bytes, the limit is %d", v.ID, size, limit)
	}
	v, err = d.expand(v, size)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: v.Size, NodeExpansionRequired: v.Type == typeImage && v.Stage != nil,
	}, nil
}

// expand grows a volume to size: the booking first, then the image, then its file system if it is not in use.
func (d *driver) expand(v *volume, size int64) (*volume, error) {
	before := v
	if size > v.Size {
		bigger := *v
		bigger.Size = size
		put := func() error { return d.store.volumes.putRecord(&bigger) }
		if err := d.checkCapacity(size-v.Size, put); err != nil {
			return nil, err
		}
		v = &bigger
		crash("expand recorded")
	}
	if v.Type == typeDirectory {
		return v, nil
	}
	if err := resizeImage(d.dataOf(v), v.Size, v.thick()); err != nil {
		return nil, errors.Join(fmt.Errorf("growing volume %s: %w", v.ID, err), d.shrinkBack(before))
	}
	crash("expand grown")
	if v.Stage != nil {
		return v, nil
	}
	settled, err := d.growUnused(v)
	// it is in use although it is not staged: the next stage grows it
	if codeIs(err, codes.FailedPrecondition) {
		d.logger.Warn("file system in use, growing it at the next stage", "volume_id", v.ID, "error", err)
		return v, nil
	}
	return settled, err
}

// shrinkBack undoes an expansion without enough space. No user has seen the larger image yet.
func (d *driver) shrinkBack(v *volume) error {
	return errors.Join(os.Truncate(d.dataOf(v), v.Size), d.store.volumes.putRecord(v))
}

// growUnused brings the file system of an image that is not in use to the size of the image. xfs grows only
// while it is mounted: the next stage does it.
func (d *driver) growUnused(v *volume) (*volume, error) {
	if v.FSType != "ext4" || v.FSSize >= v.Size {
		return v, nil
	}
	if err := d.releaseImage(d.dataOf(v)); err != nil {
		return nil, err
	}
	if err := growOffline(d.ctx, d.dataOf(v)); err != nil {
		return nil, fmt.Errorf("growing the file system of volume %s: %w", v.ID, err)
	}
	done := v.fresh()
	done.FSSize = v.Size
	return done, d.store.volumes.putRecord(done)
}

// NodeExpandVolume grows the file system or device of a volume that the controller has expanded.
func (d *driver) NodeExpandVolume(
	_ context.Context, req *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetVolumePath() == "" {
		return nil, invalidf("volume_id or volume_path is missing")
	}
	if err := checkRange(req.GetCapacityRange()); err != nil {
		return nil, err
	}
	v, release, err := d.lockVolume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	u, err := d.shownPath(v, req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if r := req.GetCapacityRange(); r.GetRequiredBytes() > v.Size {
		return nil, fail(codes.OutOfRange, "volume %s has %d bytes: the controller has not grown it", v.ID, v.Size)
	}
	if v.Type == typeImage {
		if err := d.readyImage(v); err != nil {
			return nil, err
		}
		if err := d.growInUse(v, u, req.GetVolumePath()); err != nil {
			return nil, err
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.Size}, nil
}

// growInUse brings the loop device of an image, and the file system that is mounted at path, to its size.
func (d *driver) growInUse(v *volume, u capability, path string) error {
	if err := resizeDevice(d.dataOf(v)); err != nil {
		return err
	}
	if u.Block || v.FSType == "" || v.FSSize >= v.Size {
		return nil
	}
	if err := growOnline(d.ctx, v.FSType, path, v.Size); err != nil {
		return err
	}
	v.FSSize = v.Size
	return d.saveVolume(v)
}
