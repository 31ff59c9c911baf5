package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// keptCapabilities are the capabilities that the root user of a restricted program keeps. Servers drop
// privileges, own files and bind low ports with them. The list lacks capabilities that reach beyond the
// sandbox: mounting, modules, raw I/O, rebooting, tracing, making device nodes, raw sockets, the network's
// configuration.
var keptCapabilities = map[uintptr]string{
	unix.CAP_CHOWN:            "CAP_CHOWN",
	unix.CAP_DAC_OVERRIDE:     "CAP_DAC_OVERRIDE",
	unix.CAP_FOWNER:           "CAP_FOWNER",
	unix.CAP_FSETID:           "CAP_FSETID",
	unix.CAP_KILL:             "CAP_KILL",
	unix.CAP_SETGID:           "CAP_SETGID",
	unix.CAP_SETUID:           "CAP_SETUID",
	unix.CAP_SETPCAP:          "CAP_SETPCAP",
	unix.CAP_SETFCAP:          "CAP_SETFCAP",
	unix.CAP_NET_BIND_SERVICE: "CAP_NET_BIND_SERVICE",
	unix.CAP_SYS_CHROOT:       "CAP_SYS_CHROOT",
	unix.CAP_AUDIT_WRITE:      "CAP_AUDIT_WRITE",
}

// KeptCapabilities returns the names of the capabilities that a restricted program keeps.
func KeptCapabilities() []string { return slices.Sorted(maps.Values(keptCapabilities)) }

// dropCapabilities takes the other capabilities from the calling thread and from the programs that it forks
// and executes.
//
// The thread uses none of them itself: its child is still a copy of pid 1 when it changes to the working
// directory and looks for the program, at paths that a task chooses. With CAP_SYS_PTRACE it would follow
// /proc/1/root of the sandbox to the root of the host.
func dropCapabilities() error {
	// The kernel tells where its list ends. A newer kernel has capabilities that this code does not know.
	for c := uintptr(0); ; c++ {
		if keptCapabilities[c] != "" {
			continue
		}

		// The bounding set bounds the capabilities that a later program gets when it is executed: by root,
		// from a set-uid file, or from the capabilities of its file.
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // beyond the last one the kernel knows
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}

	// Ambient capabilities survive the execution of a program (capabilities(7)). A unit of systemd may give
	// the agent some.
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("dropping the ambient capabilities: %w", err)
	}

	err = dropOwn()
	if err != nil {
		return fmt.Errorf("dropping the capabilities of the thread: %w", err)
	}

	// Besides its effect on the program, this lets a thread without CAP_SYS_ADMIN install the system call
	// filter (seccomp(2)).
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// dropOwn drops the effective capabilities of the calling thread. It leaves the permitted ones, which protect
// its child: see keepPermitted. It empties its inheritable set: the bounding set does not bound it, and the
// kernel adds it to the capabilities of a program that root executes.
func dropOwn() error {
	own, err := capabilities()
	if err != nil {
		return err
	}

	// Capability c is bit c%32 of half c/32 (capset(2)).
	var kept [2]uint32
	for c := range keptCapabilities {
		kept[c/32] |= 1 << (c % 32)
	}
	for i := range own {
		own[i].Effective &= kept[i]
		own[i].Inheritable = 0
	}
	return unix.Capset(&capHeader, &own[0])
}

// keepPermitted makes a child of the calling thread keep its permitted capabilities when it changes its user,
// until it executes the program. Until then it has the memory of this process. The kernel opens the memory of
// a process only to one that has all its permitted capabilities. Without them, and with fs.suid_dumpable = 1,
// it would open it to each process of that user.
func keepPermitted() error {
	err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("keeping the capabilities of the child: %w", err)
	}
	return nil
}

// capHeader has pid 0, which is the calling thread. Version 3 has 64 bits in each set.
var capHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

// capabilities returns the sets of the calling thread, in two halves.
func capabilities() (own [2]unix.CapUserData, err error) {
	err = unix.Capget(&capHeader, &own[0])
	return own, err
}
