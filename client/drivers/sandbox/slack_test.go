package sandbox

import (
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStartSupervisor_LeavesTheThreadAsItWas(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = setSlack(time.Duration(own)) }()
	if err := setSlack(70 * time.Microsecond); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	var out strings.Builder
	err = StartSupervisor(func() error {
		cmd := exec.Command("cat", "/proc/self/timerslack_ns")
		cmd.Stdout = &out
		return errors.Join(cmd.Run(), failed)
	})
	if !errors.Is(err, failed) || out.String() != "1000000\n" {
		t.Errorf("the process has the timer slack %q, %v", out.String(), err)
	}
	after, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || after != 70_000 {
		t.Errorf("the thread has the timer slack %d, %v", after, err)
	}
}
