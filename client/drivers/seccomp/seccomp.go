// Package seccomp bounds the system calls of a program. The list of allowed calls is the default list of
// the container engines (github.com/moby/profiles/seccomp). The package compiles the list to a BPF program
// without cgo.
//
// Invariants: a filter covers the native calls of the machine and, on 64-bit machines, the calls of its
// 32-bit mode. Each call of another mode fails with ENOSYS. A call that is newer than the list fails with
// ENOSYS, so that a C library falls back to an older one. Each other call outside the list fails with EPERM.
package seccomp

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/sandbox"
)

// tables lists the system call tables of a machine's modes by GOARCH, the native one first. On any other
// architecture exec is not detected with the default filter (ADR 14).
var tables = map[string][]*arch.Info{
	"amd64": {arch.X86_64, arch.I386},
	"arm64": {arch.AARCH64, arch.ARM},
}

// Default compiles the list for a program with these capabilities in its bounding set. A name has the form
// CAP_CHOWN. Some calls are allowed only with a capability.
func Default(capabilities []string) (sandbox.Filter, error) {
	modes, err := ownModes()
	if err != nil {
		return nil, err
	}

	// The list has conditions on the bounding set alone: with CAP_SYS_ADMIN it would allow mount, for
	// example.
	bounding := &specs.LinuxCapabilities{Bounding: capabilities}
	process := &specs.Process{Capabilities: bounding}
	list, err := seccomp.GetDefaultProfile(&specs.Spec{Process: process})
	if err != nil {
		return nil, fmt.Errorf("reading the list of system calls: %w", err)
	}

	program, err := compile(list, modes)
	if err != nil {
		return nil, err
	}

	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assembling the seccomp filter: %w", err)
	}

	// The type is the sandbox's, so that the program of supervisors does not link the compiler.
	f := make(sandbox.Filter, 0, len(raw))
	for _, r := range raw {
		f = append(f, unix.SockFilter{
			Code: r.Op,
			Jt:   r.Jt,
			Jf:   r.Jf,
			K:    r.K,
		})
	}

	return f, nil
}

// Restricted returns the filter for restricted programs of sandboxes. It is compiled once.
func Restricted() (sandbox.Filter, error) { return restricted() }

// All restricted programs have the same capabilities, so one filter serves them.
var restricted = sync.OnceValues(func() (sandbox.Filter, error) {
	return Default(sandbox.KeptCapabilities())
})

// ownModes returns the system call tables of this machine.
func ownModes() ([]*arch.Info, error) {
	modes := tables[runtime.GOARCH]
	if modes == nil {
		return nil, fmt.Errorf("no seccomp filter is known for the architecture %s", runtime.GOARCH)
	}
	return modes, nil
}

// yamaScope is the setting of the security module Yama; 3 forbids all tracing.
const yamaScope = "/proc/sys/kernel/yama/ptrace_scope"

// Supported returns the reason for which programs cannot be bound to the default filter on this machine, nil
// if they can.
func Supported() error { return supported(yamaScope, cgroups.Detect().V2 != "") }

// supported is Supported for a machine whose tasks have groups of cgroup v2, or have none.
func supported(scope string, unified bool) error {
	err := kernelSupports()
	if err != nil {
		return err
	}

	// With cgroup v2 a filtered program stops under ptrace before its first instruction (ADR 14).
	b, _ := os.ReadFile(scope) // a kernel without Yama has no such file
	if strings.TrimSpace(string(b)) == "3" && unified {
		return errors.New("kernel.yama.ptrace_scope is 3: with cgroup v2 the filter needs 2 or less")
	}
	return nil
}

func kernelSupports() error {
	if _, err := ownModes(); err != nil {
		return err
	}

	// The question changes nothing for this thread. A kernel without filters rejects it.
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP,
		unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return errors.New("the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)")
	}
	return nil
}
