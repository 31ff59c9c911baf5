package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"time"

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

// releasePatience is how long release waits for a device's last user. A mount that is gone here may live
// on for a moment in the mount namespace of a process that is just being started; nothing tells us when
// that ends.
const releasePatience = 2 * time.Second

// release frees an image from its loop devices; one that somebody still uses is refused.
func (d *driver) release(image string) error {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for start := time.Now(); ; {
		devices, err := loopsOf(image)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || len(devices) == 0 {
			return err
		}
		if time.Since(start) > releasePatience {
			return fail(codes.FailedPrecondition, "the volume is in use through %s", devices[0].path)
		}
		if err := detach(image); err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
	}
}
