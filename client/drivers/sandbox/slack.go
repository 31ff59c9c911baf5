package sandbox

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// The timer slack of a process is how much later than asked the kernel may wake it. The process inherits that
// of the thread that forked it.
const (
	// supervisorSlack saves CPU time: the Go runtime has a thread that sleeps for 20 µs again and again while
	// the process works, and each time takes the processor from the goroutine in a long system call.
	supervisorSlack = time.Millisecond
	// programSlack is the default of Linux, so that timers of a program are as exact as without a supervisor.
	programSlack = 50 * time.Microsecond
)

// StartSupervisor calls start, which starts a supervisor or the first process of a sandbox, on a thread from
// which the process inherits its timer slack.
func StartSupervisor(start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("reading the timer slack: %w", err)
	}
	err = setSlack(supervisorSlack)
	if err != nil {
		return err
	}
	defer func() { _ = setSlack(time.Duration(own)) }() // as the call before, it does not fail
	return start()
}

// setSlack sets the timer slack of the calling thread and of the processes that it forks.
func setSlack(slack time.Duration) error {
	err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0, 0, 0)
	if err != nil {
		return fmt.Errorf("setting the timer slack: %w", err)
	}
	return nil
}
