package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// loopDevice is a loop device that shows one of our images.
type loopDevice struct {
	path     string // /dev/loopN
	rdev     uint64
	readOnly bool
}

// attach makes an image a block device, reusing one that shows it already. With auto the kernel detaches it
// when its last user is gone, so that nothing is left of an ended mount. The returned file is that user until
// the device is mounted. A device that is only bound as a file has no user: not for auto.
func attach(
	ctx context.Context, image string, readOnly, auto bool,
) (dev loopDevice, hold *os.File, err error) {
	devices, err := loopsOf(image)
	if err != nil {
		return dev, nil, err
	}
	i := slices.IndexFunc(devices, func(l loopDevice) bool { return l.readOnly == readOnly })
	if i >= 0 {
		// The device may vanish during the open; the opened one is checked again.
		hold, err = os.OpenFile(devices[i].path, openMode(readOnly), 0)
		if err == nil && showsImage(hold, image) && (auto || keepAttached(hold) == nil) {
			return devices[i], hold, nil
		}
		if err == nil {
			_ = hold.Close()
		}
	}
	return attachNew(ctx, image, readOnly, auto)
}

// keepAttached keeps a device attached after its last user has gone, also if it was to be detached then: a
// process that was just starting may have held it open at the detach.
func keepAttached(dev *os.File) error {
	info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
	if err != nil || info.Flags&unix.LO_FLAGS_AUTOCLEAR == 0 {
		return err
	}
	info.Flags &^= unix.LO_FLAGS_AUTOCLEAR
	return unix.IoctlLoopSetStatus64(int(dev.Fd()), info)
}

func openMode(readOnly bool) int {
	if readOnly {
		return os.O_RDONLY | unix.O_CLOEXEC
	}
	return os.O_RDWR | unix.O_CLOEXEC
}

func attachNew(
	ctx context.Context, image string, readOnly, auto bool,
) (dev loopDevice, hold *os.File, err error) {
	file, err := os.OpenFile(image, openMode(readOnly), 0)
	if err != nil {
		return dev, nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return dev, nil, fmt.Errorf("loop devices are not to be had: %w", err)
	}
	defer control.Close()
	err = retryEBUSY(ctx, func() error { // someone else may be faster; the kernel has no queue for this
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err == nil {
			dev, hold, err = configure("/dev/loop"+strconv.Itoa(n), file, readOnly, auto)
		}
		return err
	})
	if errors.Is(err, unix.EBUSY) {
		err = fail(codes.ResourceExhausted, "no loop device is free: %w", err)
	}
	return dev, hold, err
}

// configure binds a file to a loop device in one step, so that a kill leaves it bound or free. It treats a
// device that /dev lacks as busy: the kernel would make one more, but the owner of /dev has bounded their
// number.
func configure(path string, file *os.File, readOnly, auto bool) (loopDevice, *os.File, error) {
	hold, err := os.OpenFile(path, openMode(readOnly), 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(err, unix.EBUSY)
	}
	if err != nil {
		return loopDevice{}, nil, fmt.Errorf("opening the loop device (is /dev the host's?): %w", err)
	}
	cfg := unix.LoopConfig{Fd: uint32(file.Fd())}
	if readOnly {
		cfg.Info.Flags |= unix.LO_FLAGS_READ_ONLY
	}
	if auto {
		cfg.Info.Flags |= unix.LO_FLAGS_AUTOCLEAR
	}
	copy(cfg.Info.File_name[:len(cfg.Info.File_name)-1], file.Name())
	if err := unix.IoctlLoopConfigure(int(hold.Fd()), &cfg); err != nil {
		_ = hold.Close()
		return loopDevice{}, nil, fmt.Errorf("attaching %s to %s: %w", file.Name(), path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(hold.Fd()), &st); err != nil {
		_ = hold.Close()
		return loopDevice{}, nil, err
	}
	return loopDevice{path, uint64(st.Rdev), readOnly}, hold, nil
}

// showsImage reports whether an open loop device shows the image. Device and inode are compared, because
// paths differ between mount namespaces.
func showsImage(dev *os.File, image string) bool {
	var st unix.Stat_t
	if unix.Stat(image, &st) != nil {
		return false
	}
	info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
	return err == nil && info.Inode == st.Ino && info.Device == uint64(st.Dev)
}

// loopsOf finds the loop devices that show an image.
func loopsOf(image string) ([]loopDevice, error) {
	var want unix.Stat_t
	if err := unix.Stat(image, &want); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob("/dev/loop[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []loopDevice
	for _, p := range paths {
		if !mayBeBound(p) {
			continue
		}
		f, err := os.OpenFile(p, os.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // not a device, or not ours to open: it shows no image of ours
		}
		info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
		var st unix.Stat_t
		if err == nil && unix.Fstat(int(f.Fd()), &st) == nil && info.Inode == want.Ino &&
			info.Device == uint64(want.Dev) {
			found = append(found, loopDevice{p, uint64(st.Rdev), info.Flags&unix.LO_FLAGS_READ_ONLY != 0})
		}
		_ = f.Close()
	}
	return found, nil
}

// mayBeBound reports whether a loop device may show a file, without opening it: an open device is one that
// another process cannot free.
func mayBeBound(device string) bool {
	dir := "/sys/block/" + filepath.Base(device)
	if _, err := os.Stat(dir); err != nil {
		return true // no /sys here
	}
	_, err := os.Stat(dir + "/loop/backing_file")
	return err == nil
}

// detach frees the loop devices of an image that are not open. The kernel frees one in use after its last
// user has gone.
func detach(image string) error {
	return eachLoop("detaching", image, func(dev *os.File) error {
		if !showsImage(dev, image) {
			return nil
		}
		err := unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0)
		if errors.Is(err, unix.ENXIO) {
			return nil // freed meanwhile
		}
		return err
	})
}

// resizeDevice lets the loop devices of an image see that it has grown.
func resizeDevice(image string) error {
	return eachLoop("resizing", image, func(dev *os.File) error {
		return unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_CAPACITY, 0)
	})
}

// flush writes the caches of an image's loop devices back to it.
func flush(image string) error { return eachLoop("writing back", image, (*os.File).Sync) }

// eachLoop calls do for each loop device of an image, until one call fails; doing describes it in the error.
func eachLoop(doing, image string, do func(dev *os.File) error) error {
	devices, err := loopsOf(image)
	if err != nil {
		return err
	}
	for _, l := range devices {
		dev, err := os.OpenFile(l.path, os.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(do(dev), dev.Close()); err != nil {
			return fmt.Errorf("%s %s: %w", doing, l.path, err)
		}
	}
	return nil
}
