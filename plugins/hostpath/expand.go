package hostpath

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

// ControllerExpandVolume reserves the capacity and grows a volume. It also grows the file system if the
// Volume is not in use. Otherwise the node does this.
func (d *controller) ControllerExpandVolume(
	_ context.Context, req *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	v, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	r := req.GetCapacityRange()
	if r.GetRequiredBytes() == 0 && r.GetLimitBytes() == 0 {
		return nil, disk.Invalidf("capacity_range is missing")
	}

	if err := checkRange(r); err != nil {
		return nil, err
	}

	release, err := d.lockKeys(v.ID)
	if err != nil {
		return nil, err
	}
	defer release()

	v, err = d.volume(v.ID) // another call may have changed it before the lock
	if err != nil {
		return nil, err
	}

	limit := r.GetLimitBytes()
	size := max(r.GetRequiredBytes(), v.Size)
	size = roundSize(v.Type, size, limit)
	if limit > 0 && size > limit {
		return nil, disk.Faultf(codes.OutOfRange,
			"volume %s has %d bytes, the limit is %d", v.ID, size, limit)
	}

	v, err = d.expand(v, size)
	if err != nil {
		return nil, err
	}

	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes:         v.Size,
		NodeExpansionRequired: v.Type == disk.Image && v.Stage != nil,
	}, nil
}

// expand books the new size, grows the image, and then its file system if the volume is not in use.
func (d *controller) expand(v *disk.Volume, size int64) (*disk.Volume, error) {
	before := v
	// A repeat finds the new size in the record, and continues with the image.
	if size > v.Size {
		bigger := *v
		bigger.Size = size
		err := putBooked(d.driver, d.store.Volumes, &bigger, size-v.Size)
		if err != nil {
			return nil, err
		}

		v = &bigger
		crash("expand recorded")
	}

	if v.Type == disk.Directory {
		return v, nil
	}

	err := resizeImage(d.dataOf(v), v.Size, v.IsThick())
	if err != nil {
		err = fmt.Errorf("growing volume %s: %w", v.ID, err)
		return nil, errors.Join(err, d.undoExpand(before))
	}

	// The node grows it: its file system is mounted, or a task has its device open.
	crash("expand grown")
	if v.Stage != nil {
		return v, nil
	}

	grown, err := d.growUnused(v)
	// It is in use although it is not staged. The next stage grows it.
	if disk.IsCode(err, codes.FailedPrecondition) {
		d.logger.Warn("file system in use, growing it at the next stage",
			"volume_id", v.ID, "error", err)
		return v, nil
	}

	return grown, err
}

// undoExpand undoes an expansion without enough space. No user has seen the larger image yet.
func (d *controller) undoExpand(v *disk.Volume) error {
	return errors.Join(
		os.Truncate(d.dataOf(v), v.Size),
		d.store.Volumes.Put(v))
}

// growUnused brings the file system of an image that is not in use to the size of the image. xfs grows only
// while it is mounted: the next stage does it.
func (d *driver) growUnused(v *disk.Volume) (*disk.Volume, error) {
	if v.FSType != "ext4" || v.FSSize >= v.Size {
		return v, nil
	}
	image := d.dataOf(v)
	err := d.releaseImage(image)
	if err != nil {
		return nil, err
	}
	err = disk.GrowOffline(d.ctx, image)
	if err != nil {
		return nil, fmt.Errorf("growing the file system of volume %s: %w", v.ID, err)
	}
	done := v.EditCopy()
	done.FSSize = v.Size
	return done, d.store.Volumes.Put(done)
}

// NodeExpandVolume grows the file system or device of a volume that the controller has expanded.
func (d *node) NodeExpandVolume(
	_ context.Context, req *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetVolumePath() == "" {
		return nil, disk.Invalidf("volume_id or volume_path is missing")
	}

	err := checkRange(req.GetCapacityRange())
	if err != nil {
		return nil, err
	}

	v, release, err := d.lockVolume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()

	u, err := d.useAt(v, req.GetVolumePath())
	if err != nil {
		return nil, err
	}

	if req.GetCapacityRange().GetRequiredBytes() > v.Size {
		return nil, disk.Faultf(codes.OutOfRange,
			"volume %s has %d bytes: the controller has not grown it", v.ID, v.Size)
	}

	if v.Type == disk.Image {
		err = d.readyImage(v)
		if err == nil {
			err = d.growInUse(v, u, req.GetVolumePath())
		}
	}

	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.Size}, err
}

// growInUse brings the loop device of an image, and the file system that is mounted at path, to its size.
func (d *node) growInUse(v *disk.Volume, u disk.Capability, path string) error {
	// The device is first, because the file system cannot exceed it.
	err := disk.ResizeLoop(d.dataOf(v))
	if err != nil {
		return err
	}
	if u.Block || v.FSType == "" || v.FSSize >= v.Size {
		return nil
	}
	err = disk.GrowOnline(d.ctx, v.FSType, path, v.Size)
	if err != nil {
		return err
	}
	v.FSSize = v.Size
	return d.saveVolume(v)
}
