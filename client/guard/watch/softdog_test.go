package watch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// softdogModule in the environment is the file of the kernel's module softdog, on a machine that a test may
// lose: test/guest boots one.
const softdogModule = "BERTH_TEST_SOFTDOG"

// loadSoftdog loads the module and returns its device. Its reset of the machine is only a line of the
// kernel's log: a guest loses the output before a real one.
func loadSoftdog(t *testing.T) string {
	t.Helper()
	path := os.Getenv(softdogModule)
	if path == "" {
		kit.SkipLacking(t, "a guest with a watchdog of the kernel: test/guest boots one")
	}
	module, err := os.Open(path)
	kit.Must(t, err)
	defer module.Close()
	err = unix.FinitModule(int(module.Fd()), "nowayout=0 soft_noboot=1", 0)
	if !errors.Is(err, unix.EEXIST) { // an earlier test has loaded it
		kit.Must(t, err)
	}
	devices, err := filepath.Glob("/dev/watchdog?")
	kit.Must(t, err)
	if len(devices) != 1 {
		t.Fatalf("the devices are %q", devices)
	}
	return devices[0]
}

// resets counts how often the watchdog would have reset the machine.
func resets(t *testing.T) int {
	t.Helper()
	log := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, log)
	kit.Must(t, err)
	return strings.Count(string(log[:n]), "softdog: Triggered")
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
		kit.Must(t, err)
		_, err = own.WriteString("V") // else its countdown goes on
		kit.Must(t, errors.Join(err, own.Close()))
		return false
	})
	return f, guard
}

// patience is longer than a watchdog waits that is not fed.
const patience = 3 * watchdogTimeout

func TestSoftdog_LeavesAMachineThatIsFed(t *testing.T) {
	f, _ := newGuest(t)
	before := resets(t)
	time.Sleep(patience) // it must not happen
	kit.Must(t, f.files.Remove("a1"))
	kit.Must(t, Stop(f.files.Memory, time.Minute))
	time.Sleep(patience) // nobody feeds the device, which is closed
	if n := resets(t) - before; n > 0 {
		t.Errorf("the machine is reset %d times", n)
	}
}

func TestSoftdog_ResetsTheMachineAfterAKillOfTheGuard(t *testing.T) {
	f, guard := newGuest(t)
	before := resets(t)
	ctx, cancel := timeout(time.Minute)
	defer cancel()
	kit.Must(t, guard.Guard.Kill(ctx))
	f.eventually("the machine is reset", func() bool { return resets(t) > before })
}

func TestSoftdog_ResetsAMachineThatDoesNotUnmount(t *testing.T) {
	f, _ := newGuest(t)
	before := resets(t)
	busy, err := os.Create(filepath.Join(filepath.Dir(f.files.Dir), "a1", "open"))
	kit.Must(t, err)
	defer busy.Close()
	f.renew(0)
	f.ended("a1", anyRecord)
	f.eventually("the machine is reset", func() bool { return resets(t) > before })
}
