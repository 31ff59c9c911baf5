package disk

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

// LoopDevice is a loop device that shows an image of this driver.
type LoopDevice struct {
	Path string // /dev/loopN
	// The number of the device: st_rdev of its node, and st_dev of the files on it.
	Rdev     uint64
	ReadOnly bool
}

// AttachLoop returns an open loop device that shows an image. It uses an attached one if there is one. With
// auto the kernel detaches the device after its last user, so that it ends with its mount. The returned file
// is a user until the device is mounted. A device that is only bound as a file has no user, so it must not be
// auto.
func AttachLoop(ctx context.Context, image string, readOnly, auto bool) (*os.File, error) {
	devices, err := LoopsOf(image)
	if err != nil {
		return nil, err
	}

	i := slices.IndexFunc(devices, func(l LoopDevice) bool {
		return l.ReadOnly == readOnly
	})

	if i >= 0 {
		dev, err := os.OpenFile(devices[i].Path, openMode(readOnly), 0)
		// Another process may have detached the device before the open.
		if err == nil && loopStatus(dev, image) != nil &&
			(auto || keepAttached(dev) == nil) {
			return dev, nil
		}

		_ = dev.Close() // nil if the open has failed
	}

	return attachFree(ctx, image, readOnly, auto)
}

// keepAttached keeps a device attached after its last user, also one that the kernel is about to detach: a
// starting process may have held it open during the detach.
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

// attachFree attaches an image to a free loop device and returns the open device.
func attachFree(
	ctx context.Context, image string, readOnly, auto bool,
) (dev *os.File, err error) {
	file, err := os.OpenFile(image, openMode(readOnly), 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	control, err := os.OpenFile("/dev/loop-control", openMode(false), 0)
	if err != nil {
		return nil, fmt.Errorf("loop devices are not available: %w", err)
	}
	defer control.Close()

	err = RetryBusy(ctx, func() error { // another process may take the free device first
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err == nil {
			dev, err = configureLoop("/dev/loop"+strconv.Itoa(n), file, readOnly, auto)
		}
		return err
	})

	if errors.Is(err, unix.EBUSY) {
		err = Faultf(codes.ResourceExhausted, "no loop device is free: %w", err)
	}

	return dev, err
}

// configureLoop binds a file to a loop device in one step, so that after a kill the device is bound or free.
// It treats a device that /dev lacks as busy: the kernel would make one more, but the owner of /dev has
// bounded their number.
func configureLoop(path string, file *os.File, readOnly, auto bool) (*os.File, error) {
	dev, err := os.OpenFile(path, openMode(readOnly), 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(err, unix.EBUSY)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the loop device (is /dev the host's?): %w", err)
	}

	cfg := unix.LoopConfig{Fd: uint32(file.Fd())}
	if readOnly {
		cfg.Info.Flags |= unix.LO_FLAGS_READ_ONLY
	}

	if auto {
		cfg.Info.Flags |= unix.LO_FLAGS_AUTOCLEAR
	}

	name := cfg.Info.File_name[:]
	// The kernel does not use the name: it is for operators, who see it in losetup.
	copy(name[:len(name)-1], file.Name()) // ends with NUL
	err = unix.IoctlLoopConfigure(int(dev.Fd()), &cfg)
	if err != nil {
		_ = dev.Close()
		return nil, fmt.Errorf("attaching %s to %s: %w", file.Name(), path, err)
	}

	return dev, nil
}

// loopStatus returns the status of an open loop device, nil if the device does not show the image. It
// compares device and inode, because paths differ between mount namespaces.
func loopStatus(dev *os.File, image string) *unix.LoopInfo64 {
	var st unix.Stat_t
	if unix.Stat(image, &st) != nil {
		return nil
	}
	info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
	if err != nil || info.Inode != st.Ino ||
		info.Device != uint64(st.Dev) {
		return nil
	}
	return info
}

// LoopsOf finds the loop devices that show an image.
func LoopsOf(image string) ([]LoopDevice, error) {
	_, err := os.Stat(image)
	if err != nil {
		return nil, err
	}

	paths, err := filepath.Glob("/dev/loop[0-9]*")
	if err != nil {
		return nil, err
	}

	var found []LoopDevice
	for _, p := range paths {
		if !mayBeBound(p) {
			continue
		}

		f, err := os.OpenFile(p, openMode(true)|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // not a device, or without permission: it shows no image of this driver
		}

		var st unix.Stat_t
		info := loopStatus(f, image)
		if info != nil && unix.Fstat(int(f.Fd()), &st) == nil {
			found = append(found, LoopDevice{
				Path:     p,
				Rdev:     uint64(st.Rdev),
				ReadOnly: info.Flags&unix.LO_FLAGS_READ_ONLY != 0,
			})
		}

		_ = f.Close()
	}

	return found, nil
}

// mayBeBound reports whether a loop device may show a file. It does not open the device, because the kernel
// does not detach an open device.
func mayBeBound(device string) bool {
	dir := "/sys/block/" + filepath.Base(device)
	_, err := os.Stat(dir)
	if err != nil {
		return true // there is no /sys
	}
	_, err = os.Stat(dir + "/loop/backing_file")
	return err == nil
}

// DetachLoop frees the loop devices of an image that are not open. The kernel frees an open one after its
// last user.
func DetachLoop(image string) error {
	return eachLoop("detaching", image, func(dev *os.File) error {
		if loopStatus(dev, image) == nil {
			return nil
		}
		err := unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0)
		if errors.Is(err, unix.ENXIO) {
			return nil // another process has freed it
		}
		return err
	})
}

// ResizeLoop gives the loop devices of an image the new size of the image.
func ResizeLoop(image string) error {
	return eachLoop("resizing", image, func(dev *os.File) error {
		return unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_CAPACITY, 0)
	})
}

// FlushLoop writes the caches of an image's loop devices back to the image.
func FlushLoop(image string) error {
	return eachLoop("writing back", image, (*os.File).Sync)
}

// eachLoop calls do for each loop device of an image, until a call fails. doing describes the call in the
// error.
func eachLoop(doing, image string, do func(dev *os.File) error) error {
	devices, err := LoopsOf(image)
	if err != nil {
		return err
	}

	for _, l := range devices {
		dev, err := os.OpenFile(l.Path, openMode(true), 0)
		if err != nil {
			return err
		}
		err = errors.Join(do(dev), dev.Close())
		if err != nil {
			return fmt.Errorf("%s %s: %w", doing, l.Path, err)
		}
	}

	return nil
}
