package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// bootTimeout ends a guest that hangs. A guest takes about 20 seconds on two idle cores, and a multiple of
// that on busy ones.
const bootTimeout = 10 * time.Minute

// build compiles the tests of a package into dir, for a kernel without the C library of this machine's.
func build(t *testing.T, dir, pkg string) string {
	t.Helper()
	out := filepath.Join(dir, filepath.Base(pkg)+".test")
	cmd := exec.Command("go", "test", "-c", "-trimpath", "-tags", "hashicorpmetrics,grpcnotrace", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the tests of %s: %v\n%s", pkg, err, b)
	}
	return out
}

// boot runs a shell script as the first process of a guest and returns the guest's output. The script finds
// dir at /mnt.
func boot(t *testing.T, dir, script string) string {
	t.Helper()
	kernel, err := exec.LookPath("linux.uml")
	if err != nil {
		kit.SkipLacking(t, "no user-mode Linux: install Debian's user-mode-linux, as `make setup-all` does on amd64")
	}
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the guest has the rights of its user on the machine's files")
	}
	first := filepath.Join(dir, "init")
	if err := os.WriteFile(first, []byte("#!/bin/sh\n"+prepare(dir)+script+powerOff), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx,
		os.Args[0], kernel, "mem=512M", "rootfstype=hostfs", "root=/dev/root", "ro", "quiet",
		"con=null", "con0=fd:0,fd:1", "init="+first)
	cmd.Env = append(os.Environ(), asKernel+"=1")
	// The guest is pid 1 of a separate process tree: all its processes end with it, and it ends with this
	// test.
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // Pdeathsig is bound to the thread
	defer runtime.UnlockOSThread()
	b, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("the guest did not end within %s:\n%s", bootTimeout, b)
	}
	if err != nil {
		t.Fatalf("the guest: %v\n%s", err, b)
	}
	return string(b)
}

// prepare mounts the usual file systems of Linux, and only version 2 of cgroups. Go's programs use no vector
// registers: the guest does not keep them for each thread (see runKernel).
func prepare(dir string) string {
	return `export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root GODEBUG=cpu.all=off; cd /
mount -t proc proc /proc; mount -t sysfs sys /sys
mount --bind ` + dir + ` /mnt; mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 none /sys/fs/cgroup
export BERTH_TEST_SOFTDOG=/usr/lib/uml/modules/$(uname -r)/kernel/drivers/watchdog/softdog.ko
echo hierarchies: $(grep -c ' cgroup ' /proc/mounts) $(cat /sys/fs/cgroup/cgroup.controllers)
`
}

const powerOff = "echo o > /proc/sysrq-trigger; sleep 60\n"

var (
	passed    = regexp.MustCompile(`(?m)^--- PASS: (\S+)`)
	otherwise = regexp.MustCompile(`(?m)^\s*--- (FAIL|SKIP): (\S+)`)
)

// The drivers' limits, the kill and the statistics on a machine with cgroup v2 alone, and the guard with the
// watchdog of its kernel. Each test named here
// is one that runs on every machine, and must neither fail nor be skipped in the guest.
func TestCgroupV2_BoundsTasks(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		kit.SkipLacking(t, "amd64: user-mode Linux runs on no other")
	}
	wanted := map[string][]string{
		"berth/client/drivers/cgroups": {
			"TestRealGroup_HoldsAProcess", "TestRealGroup_HasItsLimits", "TestRealGroup_KillsAGroupThatForks",
			"TestRealGroup_EndsWithTheGroupsBelowIt", "TestRealGroup_OpensOnlyItsDevices",
			"TestRealFilter_HasTheMostRules", "TestRealFilter_IsReplaced", "TestRealFilter_BoundsMknod",
			"TestRealFilter_IsAloneAfterAChange", "TestRealFilter_HoldsInGroupsBelow",
		},
		"berth/client/drivers/external": {
			"TestCgroup_OfATaskHasItsLimitsUntilTheTaskIsDestroyed", "TestCgroup_OfAFailedStartIsGone",
		},
		"berth/client/drivers/exec": {
			"TestSeccomp_RejectsTheCallsThatLeaveASandbox", "TestLimits_HoldAgainstRootInATask",
			"TestPIDsLimit_StopsAForkBomb", "TestLimits_KillATaskOutOfMemory", "TestLimits_ShowInStats",
			"TestFingerprint_ReportsTheDriver", "TestStop_KillsAfterTheTimeout", "TestDestroy_EndsAWait",
			"TestRecover_AfterAKilledAgent", "TestRecover_AfterAKilledSupervisor", "TestStart_UsesNoOpenDirectory",
		},
		"berth/client/guard/watch": {
			"TestGuard_EndsAnAllocationWithTheLeaseWithoutItsAgent", "TestGuard_RecordsTheEndBeforeTheUnmounts",
			"TestGuard_EndsWhatBeginsAfterTheEnd", "TestGuard_UnstagesAfterTheLastUser",
			"TestGuard_IsInASessionAndCgroupsOfItsOwn", "TestStop_RemovesTheCgroupOfTheLastGuard",
			"TestSoftdog_LeavesAMachineThatIsFed", "TestSoftdog_ResetsTheMachineAfterAKillOfTheGuard",
			"TestSoftdog_ResetsAMachineThatDoesNotUnmount",
		},
	}
	dir := t.TempDir()
	var script strings.Builder
	for pkg, tests := range wanted {
		binary := filepath.Base(build(t, dir, pkg))
		fmt.Fprintf(&script, "/mnt/%s -test.v -test.run '^(%s)$'\n",
			binary, strings.Join(tests, "|"))
	}
	out := boot(t, dir, script.String())
	if !strings.Contains(out, "hierarchies: 0 cpu io memory pids") {
		t.Error("the guest has not cgroup v2 alone")
	}
	done := map[string]bool{}
	for _, m := range passed.FindAllStringSubmatch(out, -1) {
		done[m[1]] = true
	}
	for pkg, tests := range wanted {
		for _, name := range tests {
			if !done[name] {
				t.Errorf("%s of %s did not pass", name, pkg)
			}
		}
	}
	if m := otherwise.FindAllString(out, -1); m != nil {
		t.Errorf("in the guest: %q", m)
	}
	if t.Failed() {
		t.Log(out)
	}
}
