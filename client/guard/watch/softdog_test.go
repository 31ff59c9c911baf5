package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/testskip"
)

// softdogModule in the environment is the file of the kernel's module softdog. It has these tests reset the
// machine, which is a guest.
const softdogModule = "BERTH_TEST_SOFTDOG"

// loadSoftdog loads the module, so that its device can be closed, and returns the device.
func loadSoftdog(t *testing.T) string {
	t.Helper()
	path := os.Getenv(softdogModule)
	if path == "" {
		testskip.Lacking(t, "a guest: the test resets the machine; test/guest boots one")
	}
	module, err := os.Open(path)
	must(t, err)
	defer module.Close()
	must(t, unix.FinitModule(int(module.Fd()), "nowayout=0", 0))
	devices, err := filepath.Glob("/dev/watchdog?")
	must(t, err)
	if len(devices) != 1 {
		t.Fatalf("the devices are %q", devices)
	}
	return devices[0]
}

// newGuest is a node with a watchdog of the kernel, a guarded allocation, and a guard that feeds.
func newGuest(t *testing.T) (f *fixture, guard Record) {
	t.Helper()
	device := loadSoftdog(t)
	f = newFixture(t)
	f.device = device
	group, _ := f.task("t")
	f.orderFor("a1", group)
	guard = f.guard()
	f.eventually("the guard has opened the watchdog", func() bool {
		own, err := os.OpenFile(device, os.O_WRONLY, 0)
		if errors.Is(err, unix.EBUSY) {
			return true
		}
		must(t, err)
		_, err = own.WriteString("V") // else its countdown goes on
		must(t, errors.Join(err, own.Close()))
		return false
	})
	return f, guard
}

// patience is longer than a watchdog waits that is not fed, also on a busy machine.
const patience = 6 * watchdogTimeout

// reset waits for the end of the machine.
func (f *fixture) reset(why string) {
	f.t.Helper()
	fmt.Println("the machine is to be reset:", why)
	time.Sleep(patience)
	f.t.Error("the machine goes on")
}

func TestSoftdog_LeavesAMachineThatIsFed(t *testing.T) {
	f, _ := newGuest(t)
	time.Sleep(patience)
	must(t, f.files.Remove("a1"))
	must(t, Stop(f.files.Memory, time.Minute))
	time.Sleep(patience) // nobody feeds the device, which is closed
}

func TestSoftdog_ResetsTheMachineAfterAKillOfTheGuard(t *testing.T) {
	f, guard := newGuest(t)
	ctx, cancel := timeout(time.Minute)
	defer cancel()
	must(t, guard.Guard.Kill(ctx))
	f.reset("its guard was killed")
}

func TestSoftdog_ResetsAMachineThatDoesNotUnmount(t *testing.T) {
	f, _ := newGuest(t)
	busy, err := os.Create(filepath.Join(filepath.Dir(f.files.Dir), "a1", "open"))
	must(t, err)
	defer busy.Close()
	f.renew(0)
	f.ended("a1", anyRecord)
	f.reset("a mount is left")
}
