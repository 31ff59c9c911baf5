// Package watchdog feeds a watchdog of the machine: a timer of the kernel or of its hardware, which reboots
// the machine if nobody feeds it in time.
package watchdog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Device is an open watchdog. The machine reboots if it is neither fed within its timeout nor closed. It
// reboots, too, if the process that holds it ends without Close.
type Device struct {
	f       *os.File
	control Control
}

// Control are the calls of a device, which a file in its place does not have.
type Control interface {
	// SetTimeout sets the timeout, and returns that of the device, in seconds.
	SetTimeout(fd, seconds int) (int, error)
	KeepAlive(fd int) error
}

// Kernel is the Control of a real device.
type Kernel struct{}

// SetTimeout implements Control.
func (Kernel) SetTimeout(fd, seconds int) (int, error) {
	err := unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, seconds)
	if err != nil {
		return 0, err
	}
	now, err := unix.IoctlGetUint32(fd, unix.WDIOC_GETTIMEOUT)
	return int(now), err
}

// KeepAlive implements Control.
func (Kernel) KeepAlive(fd int) error { return unix.IoctlWatchdogKeepalive(fd) }

// Open opens a device, which begins its countdown, and sets its timeout, in whole seconds. actual is the
// timeout that it has: a device may know only longer ones, and some do not tell theirs, which is 0.
func Open(path string, timeout time.Duration, c Control) (d *Device, actual time.Duration, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the watchdog: %w", err)
	}

	d = &Device{f, c}
	seconds, err := c.SetTimeout(int(f.Fd()), int(timeout/time.Second))
	if err != nil && !isUnknown(err) {
		return nil, 0, errors.Join(fmt.Errorf("setting the timeout of the watchdog: %w", err), d.Close())
	}
	return d, time.Duration(seconds) * time.Second, nil
}

// isUnknown reports whether a device does not have a call.
func isUnknown(err error) bool {
	return errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP)
}

// Feed begins the countdown again.
func (d *Device) Feed() error {
	err := d.control.KeepAlive(int(d.f.Fd()))
	if isUnknown(err) { // a write feeds every device
		_, err = d.f.Write([]byte{0})
	}
	if err != nil {
		return fmt.Errorf("feeding the watchdog: %w", err)
	}
	return nil
}

// Close ends the countdown, if the device can be stopped, and closes the device.
func (d *Device) Close() error {
	const magic = "V" // of the kernel's interface of watchdogs
	_, err := d.f.WriteString(magic)
	return errors.Join(err, d.f.Close())
}
