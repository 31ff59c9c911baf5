package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

// NodePublishVolume shows a staged volume at a target path: it binds its directory or file system there, or
// its device as a file. A read-only publication of a device has a separate loop device, because a read-only
// mount does not prevent writes to a device.
func (d *node) NodePublishVolume(
	_ context.Context, req *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	path, err := d.checkPath("target_path", req.GetTargetPath())
	if err != nil {
		return nil, err
	}

	c := req.GetVolumeCapability()
	v, release, err := d.lockVolumeFor(req.GetVolumeId(), c)
	if err != nil {
		return nil, err
	}
	defer release()

	use := capabilityOf(c)
	err = d.checkStagedAt(v, req.GetStagingTargetPath(), use.Block)
	if err != nil {
		return nil, err
	}

	t := &disk.Target{
		Use:      use,
		ReadOnly: req.GetReadonly() || readerModes[modeOf(use)],
	}
	err = d.recordTarget(v, path, t)
	if err != nil {
		return nil, err
	}

	return &csi.NodePublishVolumeResponse{}, d.publish(v, path)
}

// checkStagedAt returns an error unless a volume is staged at the path of the call, in the same way.
func (d *node) checkStagedAt(v *disk.Volume, path string, block bool) error {
	if path == "" {
		return disk.Preconditionf("staging_target_path is missing: the volume has to be staged first")
	}

	real, err := d.checkPath("staging_target_path", path)
	if err != nil {
		return err
	}

	live, err := d.isStaged(v)
	switch {
	case err != nil:
		return err
	case !live:
		return disk.Preconditionf("volume %s is not staged", v.ID)
	case v.Stage.Path != real:
		return disk.Preconditionf("volume %s is staged at %s", v.ID, v.Stage.Path)
	case v.Stage.Use.Block != block:
		return disk.Preconditionf("volume %s is staged with another access type", v.ID)
	}

	return nil
}

// recordTarget records the path at which a volume is about to be published. It changes nothing if the volume
// is published there in the same way. In a mode for one user a volume is published at one path only.
func (d *node) recordTarget(v *disk.Volume, path string, t *disk.Target) error {
	for other, old := range v.Targets {
		shown, err := d.shownAt(v, other)
		if err != nil {
			return err
		}

		same := old.Use.Equal(t.Use) && old.ReadOnly == t.ReadOnly
		single := singlePathModes[modeOf(t.Use)] ||
			singlePathModes[modeOf(old.Use)]
		switch {
		case other == path && shown && old.Ready && !same:
			return disk.Faultf(codes.AlreadyExists,
				"volume %s is published at %s in another way", v.ID, path)
		case other == path && shown && old.Ready:
			return nil
		case other != path && shown && single:
			return disk.Preconditionf("volume %s is published at %s", v.ID, other)
		case other != path && !shown:
			// A killed call has recorded a target that it did not mount, or a former call did not drop it.
			delete(v.Targets, other)
		}
	}

	v.Targets[path] = t
	err := d.saveVolume(v)
	if err != nil {
		return err
	}

	crash("publish recorded")
	return nil
}

func modeOf(u disk.Capability) csi.VolumeCapability_AccessMode_Mode {
	return csi.VolumeCapability_AccessMode_Mode(u.Mode)
}

// publish mounts a volume as its record demands and marks it done.
func (d *node) publish(v *disk.Volume, path string) error {
	t := v.Targets[path]
	if t.Ready {
		return nil
	}

	shown, err := d.shownAt(v, path)
	if err != nil {
		return err
	}

	err = makeTarget(path, t.Use.Block)
	if err != nil {
		return err
	}

	if t.Use.Block {
		err = d.publishBlock(v, path, t, shown)
	} else {
		err = d.publishMount(v, path, t, shown)
	}
	if err != nil {
		return fmt.Errorf("publishing volume %s: %w", v.ID, err)
	}

	crash("publish mounted")
	t.Ready = true
	return d.saveVolume(v)
}

func (d *node) publishMount(v *disk.Volume, path string, t *disk.Target, shown bool) error {
	bits, _, err := mountFlags(t.Use.Flags)
	if err != nil {
		return err
	}
	if t.ReadOnly {
		bits |= unix.MS_RDONLY
	}
	return d.bindMount(v.Stage.Path, path, bits, shown)
}

func (d *node) publishBlock(v *disk.Volume, path string, t *disk.Target, shown bool) error {
	if shown {
		return nil
	}
	dev, err := disk.AttachLoop(d.ctx, d.dataOf(v), t.ReadOnly, false)
	if err != nil {
		return err
	}
	defer dev.Close()
	return d.bindMount(dev.Name(), path, 0, false)
}

// makeTarget makes the file or directory for a bind mount. An existing one must be of the same type.
func makeTarget(path string, block bool) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir() != block:
		return nil // an earlier call or the orchestrator has made it
	case err == nil:
		return disk.Invalidf("target_path %s exists and is of the wrong type", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}

	if block {
		var f *os.File
		f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o600)
		_ = f.Close() // nil if the open has failed
	} else {
		err = os.Mkdir(path, 0o755)
	}

	if errors.Is(err, fs.ErrNotExist) {
		return disk.Invalidf("the parent of target_path does not exist: %w", err)
	}

	return err
}

// NodeUnpublishVolume undoes NodePublishVolume and removes the target path.
func (d *node) NodeUnpublishVolume(
	_ context.Context, req *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	path, err := d.checkPath("target_path", req.GetTargetPath())
	if err != nil {
		return nil, err
	}

	v, release, err := d.lockVolume(req.GetVolumeId())
	// A repeat after the deletion of the volume has only the target to remove.
	if disk.IsCode(err, codes.NotFound) {
		err = ignoreIfUnmounted(path, err)
		if err == nil {
			err = removeTarget(path)
		}
		return &csi.NodeUnpublishVolumeResponse{}, err
	}
	if err != nil {
		return nil, err
	}
	defer release()

	if v.Stage != nil && v.Stage.Path == path {
		return nil, disk.Invalidf("volume %s is staged at %s, not published", v.ID, path)
	}

	err = d.unmountAll(v, path)
	if err != nil {
		return nil, err
	}

	crash("unpublish unmounted")
	err = removeTarget(path)
	if err != nil {
		return nil, err
	}

	// The record is last. After a kill before this line the next publication drops the target.
	if v.Targets[path] != nil {
		delete(v.Targets, path)
		err = d.saveVolume(v)
	}

	return &csi.NodeUnpublishVolumeResponse{}, err
}

// removeTarget removes an empty directory or an empty file: the driver makes no other targets.
func removeTarget(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}

	if !info.IsDir() &&
		(!info.Mode().IsRegular() || info.Size() > 0) {
		return disk.Preconditionf("%s is not an empty file: it is left alone", path)
	}

	err = os.Remove(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENOTEMPTY),
		errors.Is(err, unix.EEXIST):
		return disk.Preconditionf("%s holds files that are not the volume's: it is left alone", path)
	}

	return err
}
