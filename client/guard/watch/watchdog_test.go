package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeWatchdog notes the calls of a device.
type fakeWatchdog struct {
	most  int // seconds; 0: the device does not have the calls
	err   error
	set   int
	fed   int
	again error // of KeepAlive
}

func (c *fakeWatchdog) SetTimeout(_, seconds int) (int, error) {
	c.set = seconds
	if c.err != nil {
		return 0, c.err
	}
	return max(seconds, c.most), nil
}

func (c *fakeWatchdog) KeepAlive(int) error {
	c.fed++
	return c.again
}

// watchdogFile makes a file in the place of a device.
func watchdogFile(t *testing.T) (path string, content func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "watchdog")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
}

func TestDevice_IsFedByItsCallAndClosedInOrder(t *testing.T) {
	path, content := watchdogFile(t)
	c := &fakeWatchdog{most: 10}
	d, actual, err := OpenWatchdog(path, 4*time.Second, c)
	if err != nil || c.set != 4 || actual != 10*time.Second {
		t.Fatalf("the timeout was set to %d, is %s, %v", c.set, actual, err)
	}
	err = errors.Join(d.Feed(), d.Feed())
	if err != nil || c.fed != 2 || content() != "" {
		t.Errorf("fed %d times, %q, %v", c.fed, content(), err)
	}
	c.again = unix.EIO
	if err := d.Feed(); !errors.Is(err, unix.EIO) {
		t.Errorf("a device that fails: %v", err)
	}
	err = d.Close()
	if err != nil || content() != "V" {
		t.Errorf("closed with %q, %v", content(), err)
	}
}

func TestDevice_IsFedByWritesWithoutTheCalls(t *testing.T) {
	path, content := watchdogFile(t)
	d, actual, err := OpenWatchdog(path, 4*time.Second, KernelWatchdog{}) // a file has no calls
	if err != nil || actual != 0 {
		t.Fatalf("the timeout is %s, %v", actual, err)
	}
	err = errors.Join(d.Feed(), d.Feed(), d.Close())
	if err != nil || content() != "\x00\x00V" {
		t.Errorf("it got %q, %v", content(), err)
	}
}

func TestOpen_LeavesNoCountdownBehindAFailure(t *testing.T) {
	path, content := watchdogFile(t)
	_, _, err := OpenWatchdog(path, time.Second, &fakeWatchdog{err: unix.EIO})
	if !errors.Is(err, unix.EIO) || content() != "V" {
		t.Errorf("it got %q, %v", content(), err)
	}
	_, _, err = OpenWatchdog(path+"-missing", time.Second, KernelWatchdog{})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a device: %v", err)
	}
}
