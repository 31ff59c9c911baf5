package hostpath

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"berth/plugins/hostpath/disk"
)

// resizeImage makes an image size bytes long. It never makes it shorter. With thick it reserves all blocks:
// the error is ENOSPC if there are not enough.
func resizeImage(path string, size int64, thick bool) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < size {
		err = f.Truncate(size)
	}
	if err == nil && thick {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = disk.Preconditionf(
			"the file system of the data directory reserves no blocks: request provisioning thin (%w)", err)
	}
	return errors.Join(err, f.Close())
}

// readyImage makes an image as large as its volume. It reserves blocks that a trim has freed. Without space
// for them the volume works until the disk is full.
func (d *driver) readyImage(v *disk.Volume) error {
	image := d.dataOf(v)
	if v.IsThick() {
		err := resizeImage(image, v.Size, true)
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		d.logger.Warn("failed to reserve the blocks of a volume",
			"volume_id", v.ID, "error", err)
	}
	return resizeImage(image, v.Size, false)
}

// releaseImage detaches the loop devices of an image. It returns an error if the image stays in use.
func (d *driver) releaseImage(image string) error {
	return disk.RetryBusy(d.ctx, func() error {
		devices, err := disk.LoopsOf(image)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || len(devices) == 0 {
			return err
		}
		// An open device stays attached for now, so the next attempt looks again.
		if err := disk.DetachLoop(image); err != nil {
			return err
		}
		return disk.Preconditionf("the volume is in use through %s: %w", devices[0].Path, unix.EBUSY)
	})
}
