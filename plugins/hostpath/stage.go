package hostpath

import (
	"context"
	"fmt"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// NodeStageVolume shows a volume at its staging path: a directory is bound there, the file system of an
// image is mounted there (grown first if it is behind), and a block volume gets its loop device.
func (d *driver) NodeStageVolume(
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
	if err := needDir("staging_target_path", path); err != nil {
		return nil, err
	}
	if err := d.stageHere(v, path, useOf(c)); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, d.stage(v)
}

// stageHere records where a volume is about to be staged. A volume that is staged already has to be staged in
// the same way.
func (d *driver) stageHere(v *volume, path string, u capability) error {
	if s := v.Stage; s != nil && s.Ready {
		live, err := d.staged(v)
		if err != nil {
			return err
		}
		switch {
		case live && s.Path != path:
			return preconditionf("volume %s is staged at %s", v.ID, s.Path)
		case live && !s.Use.equal(u):
			return fail(codes.AlreadyExists, "volume %s is staged at %s with another capability", v.ID, path)
		case live:
			return nil
		}
	}
	v.Stage = &staging{Path: path, Use: u}
	if err := d.saveVolume(v); err != nil {
		return err
	}
	crash("stage recorded")
	return nil
}

// staged reports whether a volume is really staged at the path in its record.
func (d *driver) staged(v *volume) (bool, error) {
	if v.Stage == nil {
		return false, nil
	}
	if !v.Stage.Use.Block {
		return d.shownAt(v, v.Stage.Path)
	}
	devices, err := loopsOf(d.dataOf(v))
	return len(devices) > 0, err
}

// stage stages a volume as its record demands and marks it done. Each part checks first whether it is done
// already.
func (d *driver) stage(v *volume) error {
	live, err := d.staged(v)
	if err != nil {
		return err
	}
	if !live {
		if err := d.mountStage(v); err != nil {
			return fmt.Errorf("staging volume %s: %w", v.ID, err)
		}
	}
	crash("stage mounted")
	if v.Type == typeImage && !v.Stage.Use.Block && v.FSSize < v.Size {
		// The file system is still smaller although it was grown before the mount: it is xfs, or the stage
		// found it mounted. It works as it is, so a failure here is only logged.
		if err := d.growInUse(v, v.Stage.Use, v.Stage.Path); err != nil {
			d.logger.Warn("failed to grow a mounted file system", "volume_id", v.ID, "error", err)
		}
	}
	if v.Stage.Ready {
		return nil
	}
	v.Stage.Ready = true
	return d.saveVolume(v)
}

func (d *driver) mountStage(v *volume) error {
	switch {
	case v.Type == typeDirectory:
		return d.stageDirectory(v)
	case v.Stage.Use.Block:
		return d.stageBlock(v)
	}
	return d.stageFileSystem(v)
}

func (d *driver) stageDirectory(v *volume) error {
	bits, _, err := mountFlags(v.Stage.Use.Flags)
	if err != nil {
		return err
	}
	return d.bindMount(d.dataOf(v), v.Stage.Path, bits, false)
}

// stageBlock attaches the device that will be published. It stays attached until it is unstaged: a device
// that is only bound as a file is no use of it in the kernel's eyes.
func (d *driver) stageBlock(v *volume) error {
	if err := d.readyImage(v); err != nil {
		return err
	}
	_, hold, err := attach(d.ctx, d.dataOf(v), false, false)
	if err != nil {
		return err
	}
	return hold.Close()
}

func (d *driver) stageFileSystem(v *volume) error {
	data := d.dataOf(v)
	if err := d.readyImage(v); err != nil {
		return err
	}
	settled, err := d.growUnused(v)
	switch {
	case codeIs(err, codes.FailedPrecondition): // mounted elsewhere: it works as it is, and grows online perhaps
		d.logger.Warn("file system in use, mounting it without growth", "volume_id", v.ID, "error", err)
	case err != nil:
		return err
	default:
		v.FSSize = settled.FSSize
	}
	bits, options, err := mountFlags(v.Stage.Use.Flags)
	if err != nil {
		return err
	}
	if o := filesystems[v.FSType].options; o != "" {
		options = append(options, o)
	}
	dev, hold, err := attach(d.ctx, data, false, true)
	if err != nil {
		return err
	}
	defer hold.Close()
	crash("stage attached")
	err = retryEBUSY(d.ctx, func() error {
		return unix.Mount(dev.path, v.Stage.Path, v.FSType, bits, strings.Join(options, ","))
	})
	if err != nil {
		return fmt.Errorf("mounting %s as %s: %w", dev.path, v.FSType, err)
	}
	return nil
}

// NodeUnstageVolume undoes NodeStageVolume. A volume that is still published is refused.
func (d *driver) NodeUnstageVolume(
	_ context.Context, req *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	path, err := d.checkPath("staging_target_path", req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	v, release, err := d.lockVolume(req.GetVolumeId())
	if codeIs(err, codes.NotFound) {
		return &csi.NodeUnstageVolumeResponse{}, ignoreIfUnmounted(path, err)
	}
	if err != nil {
		return nil, err
	}
	defer release()
	if v.Stage == nil || v.Stage.Path != path {
		// The record has no such staging. Unmount the volume from the path all the same.
		return &csi.NodeUnstageVolumeResponse{}, d.unmountAll(v, path)
	}
	if err := checkUnpublished(v); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, d.unstage(v)
}

func codeIs(err error, code codes.Code) bool { return err != nil && codeOf(err) == code }

// ignoreIfUnmounted forgives that a volume does not exist where nothing is mounted either.
func ignoreIfUnmounted(path string, err error) error {
	mounted, failed := isMounted(path)
	if failed != nil || !mounted {
		return failed
	}
	return err
}

// checkUnpublished rejects a volume that is really published at a path. It drops targets that do not exist
// any more.
func checkUnpublished(v *volume) error {
	for p := range v.Targets {
		mounted, err := isMounted(p)
		if err != nil {
			return err
		}
		if mounted {
			return preconditionf("volume %s is still published at %s", v.ID, p)
		}
		delete(v.Targets, p)
	}
	return nil
}

func (d *driver) unstage(v *volume) error {
	if !v.Stage.Use.Block {
		if err := d.unmountAll(v, v.Stage.Path); err != nil {
			return err
		}
	}
	crash("unstage unmounted")
	if v.Type == typeImage {
		if err := detach(d.dataOf(v)); err != nil {
			return err
		}
	}
	v.Stage = nil
	return d.saveVolume(v)
}
