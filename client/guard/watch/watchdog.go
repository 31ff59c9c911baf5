package watch

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Watchdog is an open watchdog of the machine: a timer of the kernel or of its hardware. The machine reboots
// if it is neither fed within its timeout nor closed. It reboots, too, if the process that holds it ends
// without Close.
type Watchdog struct {
	f       *os.File
	control WatchdogControl
}

// WatchdogControl are the calls of a device, which a file in its place does not have.
type WatchdogControl interface {
	// SetTimeout sets the timeout, and returns the device's, in seconds.
	SetTimeout(fd, seconds int) (int, error)
	KeepAlive(fd int) error
}

// KernelWatchdog is the WatchdogControl of a real device.
type KernelWatchdog struct{}

// SetTimeout implements WatchdogControl.
func (KernelWatchdog) SetTimeout(fd, seconds int) (int, error) {
	err := unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, seconds)
	if err != nil {
		return 0, err
	}
	now, err := unix.IoctlGetUint32(fd, unix.WDIOC_GETTIMEOUT)
	return int(now), err
}

// KeepAlive implements WatchdogControl.
func (KernelWatchdog) KeepAlive(fd int) error { return unix.IoctlWatchdogKeepalive(fd) }

// OpenWatchdog opens a device, which begins its countdown, and sets its timeout, in whole seconds. actual is
// the timeout that it has: a device may know only longer ones, and some do not tell theirs, which is 0.
func OpenWatchdog(
	path string, timeout time.Duration, c WatchdogControl,
) (d *Watchdog, actual time.Duration, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the watchdog: %w", err)
	}

	d = &Watchdog{f, c}
	seconds, err := c.SetTimeout(int(f.Fd()), int(timeout/time.Second))
	if err != nil && !isUnknownCall(err) {
		return nil, 0, errors.Join(fmt.Errorf("setting the timeout of the watchdog: %w", err), d.Close())
	}
	return d, time.Duration(seconds) * time.Second, nil
}

// isUnknownCall reports whether a device does not have a call.
func isUnknownCall(err error) bool {
	return errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP)
}

// Feed begins the countdown again.
func (d *Watchdog) Feed() error {
	err := d.control.KeepAlive(int(d.f.Fd()))
	if isUnknownCall(err) { // a write feeds every device
		_, err = d.f.Write([]byte{0})
	}
	if err != nil {
		return fmt.Errorf("feeding the watchdog: %w", err)
	}
	return nil
}

// Close ends the countdown, if the device can be stopped, and closes the device.
func (d *Watchdog) Close() error {
	const magic = "V" // of the kernel's interface of watchdogs
	_, err := d.f.WriteString(magic)
	return errors.Join(err, d.f.Close())
}
