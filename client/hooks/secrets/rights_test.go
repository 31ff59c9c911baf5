package secrets

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// dropMountRights takes CAP_SYS_ADMIN from the calling goroutine, which keeps its thread.
func dropMountRights() error {
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	if err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	return unix.Capset(&header, &data[0])
}
