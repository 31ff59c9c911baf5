package guest

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"berth/internal/testskip"
)

// softdog returns the file of the guest kernel's watchdog.
func softdog(t *testing.T) string {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		testskip.Lacking(t, "amd64: user-mode Linux runs on no other")
	}
	version, err := exec.Command("linux.uml", "--version").Output()
	if err != nil {
		testskip.Lacking(t, "no user-mode Linux: install Debian's user-mode-linux")
	}
	return filepath.Join("/usr/lib/uml/modules", strings.TrimSpace(string(version)),
		"kernel/drivers/watchdog/softdog.ko")
}

// The watchdog of the kernel resets the machine when the guard is killed, and when a volume is not unmounted
// in time. A guard that feeds and closes it keeps the machine.
func TestWatchdog_ResetsTheMachine(t *testing.T) {
	module := softdog(t)
	dir := t.TempDir()
	binary := filepath.Base(build(t, dir, "berth/client/guard/watch"))
	for name, reset := range map[string]bool{
		"TestSoftdog_LeavesAMachineThatIsFed":              false,
		"TestSoftdog_ResetsTheMachineAfterAKillOfTheGuard": true,
		"TestSoftdog_ResetsAMachineThatDoesNotUnmount":     true,
	} {
		t.Run(name, func(t *testing.T) {
			out := boot(t, dir, "export BERTH_TEST_SOFTDOG="+module+"\n"+
				"/mnt/"+binary+" -test.v -test.run '^"+name+"$'\n"+"echo the machine goes on\n")
			ready := strings.Contains(out, "the machine is to be reset") || strings.Contains(out, "--- PASS: "+name)
			fired := strings.Contains(out, resetLine)
			stayed := strings.Contains(out, "the machine goes on")
			if !ready || fired != reset || stayed == reset {
				t.Errorf("the watchdog fired: %v, the machine went on: %v\n%s", fired, stayed, out)
			}
		})
	}
}
