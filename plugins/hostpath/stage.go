package hostpath

import (
	"context"
	"fmt"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

// NodeStageVolume shows a volume at its staging path: a directory is bound there, the file system of an
// image is mounted there (grown first if it is behind), and a block volume gets its loop device.
func (d *node) NodeStageVolume(
	_ context.Context, req *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	path, err := d.checkPath("staging_target_path", req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}

	c := req.GetVolumeCapability()
	v, release, err := d.lockVolumeFor(req.GetVolumeId(), c)
	if err != nil {
		return nil, err
	}
	defer release()

	err = checkDir("staging_target_path", path)
	if err != nil {
		return nil, err
	}

	err = d.recordStage(v, path, capabilityOf(c))
	if err != nil {
		return nil, err
	}

	return &csi.NodeStageVolumeResponse{}, d.stage(v)
}

// recordStage records the path at which a volume is about to be staged. It changes nothing if the volume is
// staged there in the same way, and rejects another way.
func (d *node) recordStage(v *disk.Volume, path string, u disk.Capability) error {
	// A record that is not ready is of a call that was killed or failed: this call replaces it.
	if s := v.Stage; s != nil && s.Ready {
		live, err := d.isStaged(v)
		if err != nil {
			return err
		}

		switch {
		case live && s.Path != path:
			return disk.Preconditionf("volume %s is staged at %s", v.ID, s.Path)
		case live && !s.Use.Equal(u):
			return disk.Faultf(codes.AlreadyExists,
				"volume %s is staged at %s with another capability", v.ID, path)
		case live:
			return nil
		}
	}

	v.Stage = &disk.Staging{Path: path, Use: u}
	err := d.saveVolume(v)
	if err != nil {
		return err
	}

	crash("stage recorded")
	return nil
}

// isStaged reports whether a volume is staged at the path in its record, by the mount table and the loop
// devices.
func (d *driver) isStaged(v *disk.Volume) (bool, error) {
	if v.Stage == nil {
		return false, nil
	}
	if !v.Stage.Use.Block {
		return d.shownAt(v, v.Stage.Path)
	}
	devices, err := disk.LoopsOf(d.dataOf(v))
	return len(devices) > 0, err
}

// stage stages a volume as its record demands and marks it done. Each part checks first whether it is done
// already.
func (d *node) stage(v *disk.Volume) error {
	live, err := d.isStaged(v)
	if err != nil {
		return err
	}

	if !live {
		err = d.mountStage(v)
		if err != nil {
			return fmt.Errorf("staging volume %s: %w", v.ID, err)
		}
	}

	crash("stage mounted")
	if v.Type == disk.Image && !v.Stage.Use.Block &&
		v.FSSize < v.Size {
		// The stage has not grown the file system before the mount: it is xfs, or it was mounted. It works
		// with its size, so a failure is only logged.
		err = d.growInUse(v, v.Stage.Use, v.Stage.Path)
		if err != nil {
			d.logger.Warn("failed to grow a mounted file system",
				"volume_id", v.ID, "error", err)
		}
	}

	if v.Stage.Ready {
		return nil
	}

	v.Stage.Ready = true
	return d.saveVolume(v)
}

func (d *node) mountStage(v *disk.Volume) error {
	switch {
	case v.Type == disk.Directory:
		return d.stageDirectory(v)
	case v.Stage.Use.Block:
		return d.stageBlock(v)
	}
	return d.stageFileSystem(v)
}

func (d *node) stageDirectory(v *disk.Volume) error {
	bits, _, err := mountFlags(v.Stage.Use.Flags)
	if err != nil {
		return err
	}
	return d.bindMount(d.dataOf(v), v.Stage.Path, bits, false)
}

// stageBlock attaches the device that NodePublishVolume binds. It does not attach it as auto, because a bind
// of the device's file does not count as a user.
func (d *node) stageBlock(v *disk.Volume) error {
	if err := d.readyImage(v); err != nil {
		return err
	}
	dev, err := disk.AttachLoop(d.ctx, d.dataOf(v), false, false)
	if err != nil {
		return err
	}
	return dev.Close()
}

func (d *node) stageFileSystem(v *disk.Volume) error {
	if err := d.readyImage(v); err != nil {
		return err
	}

	grown, err := d.growUnused(v)
	switch {
	case disk.IsCode(err, codes.FailedPrecondition): // it is mounted elsewhere and works with its size
		d.logger.Warn("file system in use, mounting it without growth",
			"volume_id", v.ID, "error", err)
	case err != nil:
		return err
	default:
		v.FSSize = grown.FSSize
	}

	bits, options, err := mountFlags(v.Stage.Use.Flags)
	if err != nil {
		return err
	}

	if o := disk.FileSystems[v.FSType].Options; o != "" {
		options = append(options, o)
	}

	data := strings.Join(options, ",")
	dev, err := disk.AttachLoop(d.ctx, d.dataOf(v), false, true)
	if err != nil {
		return err
	}
	defer dev.Close()

	crash("stage attached")
	err = disk.RetryBusy(d.ctx, func() error {
		return unix.Mount(dev.Name(), v.Stage.Path, v.FSType, bits, data)
	})
	if err != nil {
		return fmt.Errorf("mounting %s as %s: %w", dev.Name(), v.FSType, err)
	}

	return nil
}

// NodeUnstageVolume undoes NodeStageVolume. It rejects a volume that is published.
func (d *node) NodeUnstageVolume(
	_ context.Context, req *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	path, err := d.checkPath("staging_target_path", req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}

	v, release, err := d.lockVolume(req.GetVolumeId())
	if disk.IsCode(err, codes.NotFound) {
		return &csi.NodeUnstageVolumeResponse{}, ignoreIfUnmounted(path, err)
	}
	if err != nil {
		return nil, err
	}
	defer release()

	if v.Stage == nil || v.Stage.Path != path {
		// The record has no such staging, but the volume may be mounted there.
		return &csi.NodeUnstageVolumeResponse{}, d.unmountAll(v, path)
	}

	if err := checkUnpublished(v); err != nil {
		return nil, err
	}

	return &csi.NodeUnstageVolumeResponse{}, d.unstage(v)
}

// ignoreIfUnmounted drops the error of a volume that does not exist if nothing is mounted on the path.
func ignoreIfUnmounted(path string, err error) error {
	mounted, failed := isMounted(path)
	if failed != nil || !mounted {
		return failed
	}
	return err
}

// checkUnpublished rejects a volume that is published at a path by the mount table. It drops other targets.
func checkUnpublished(v *disk.Volume) error {
	for p := range v.Targets {
		mounted, err := isMounted(p)
		if err != nil {
			return err
		}
		if mounted {
			return disk.Preconditionf("volume %s is still published at %s", v.ID, p)
		}
		delete(v.Targets, p)
	}
	return nil
}

func (d *node) unstage(v *disk.Volume) error {
	if !v.Stage.Use.Block {
		err := d.unmountAll(v, v.Stage.Path)
		if err != nil {
			return err
		}
	}

	crash("unstage unmounted")
	if v.Type == disk.Image {
		// This includes the devices of read-only publications, which no unpublish detaches.
		err := disk.DetachLoop(d.dataOf(v))
		if err != nil {
			return err
		}
	}
	v.Stage = nil
	return d.saveVolume(v)
}
