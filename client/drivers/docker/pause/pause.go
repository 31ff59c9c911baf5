// Package pause is the program of a container that enters a network namespace of the node, so that the daemon
// can join other containers to it: a daemon joins containers only to each other.
package pause

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"
)

// Arg selects Main among the duties of the agent's executable. The file of the namespace follows.
const Arg = "pause"

// ExitNoNamespace is the exit code if the file has no network namespace: the daemon does not see the mount.
const ExitNoNamespace = 3

// Main enters the namespace and waits until SIGTERM. It returns the exit code.
func Main(args []string) int {
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
	// The thread that executes a program becomes its main thread, which is the process for others.
	program := os.Args[:len(os.Args)-len(args)]
	err = unix.Exec("/proc/self/exe", program, nil)
	fmt.Fprintln(os.Stderr, "pause:", err)
	return 1
}
