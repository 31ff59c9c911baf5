package helper

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CutArg makes the supervisor's program do this work. The mount point follows it.
const CutArg = "mountcut"

// Cut is the program that ends the connection of a FUSE mount with a server that does not answer: no system
// call on such a mount need end. All requests that wait fail then, and the mount is dead. The mount may stay
// or go: a busy one stays, without its server.
func Cut(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "mountcut: expected a mount point")
		return 2
	}
	err := unix.Unmount(args[0], unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW)
	if err != nil && err != unix.EBUSY {
		fmt.Fprintln(os.Stderr, &os.PathError{Op: "unmount", Path: args[0], Err: err})
		return 1
	}
	return 0
}
