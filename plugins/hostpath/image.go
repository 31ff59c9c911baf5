package hostpath

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// resizeImage makes an image size bytes long, never shorter than it is.
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
	return errors.Join(err, f.Close())
}

// release frees an image from its loop devices; one that somebody goes on using is refused.
func (d *driver) release(image string) error {
	return patiently(d.ctx, func() error {
		devices, err := loopsOf(image)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || len(devices) == 0 {
			return err
		}
		if err := detach(image); err != nil {
			return err
		}
		return fail(codes.FailedPrecondition, "the volume is in use through %s: %w", devices[0].path, unix.EBUSY)
	})
}
