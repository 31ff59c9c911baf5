package netns

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"
)

// PauseArg selects PauseMain among the duties of the agent's executable. The file of the namespace follows.
const PauseArg = "pause"

// ExitNoNamespace is the exit code if the file has no network namespace: the daemon does not see the mount.
const ExitNoNamespace = 3

// PauseMain is the program of a container that enters a network namespace of the node, so that the daemon can
// join other containers to it: a daemon joins containers only to each other. PauseMain enters the namespace
// and waits until SIGTERM. It returns the exit code.
func PauseMain(args []string) int {
	if len(args) == 0 {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
		<-stop
		return 0
	}

	f, err := os.Open(args[0])
	if err == nil {
		runtime.LockOSThread()
		err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pause: entering the network namespace:", err)
		return ExitNoNamespace
	}

	err = dropCapabilities()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pause: giving up the capabilities:", err)
		return 1
	}

	// The thread that executes a program becomes its main thread, which is the process for others.
	program := os.Args[:len(os.Args)-len(args)]
	err = unix.Exec("/proc/self/exe", program, nil)
	fmt.Fprintln(os.Stderr, "pause:", err)
	return 1
}

// dropCapabilities takes all capabilities from this thread and from the programs that it executes: only the
// entry into the namespace needs one.
func dropCapabilities() error {
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // or a program of root regains them
	if err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
