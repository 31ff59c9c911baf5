package guest

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// asKernel in the environment has the test binary become the guest's kernel, which its arguments name.
const asKernel = "BERTH_TEST_KERNEL"

func TestMain(m *testing.M) {
	if os.Getenv(asKernel) == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, "starting the guest's kernel:", runKernel(os.Args[1:]))
	os.Exit(1)
}

// runKernel becomes the user-mode kernel and returns only on an error. The kernel reads the extended
// registers of its processes into a buffer of a fixed size, and crashes on a processor with more of them,
// such as one with AMX. So a filter reports none (EINVAL for PTRACE_GETREGSET), and the kernel keeps only
// the registers of the FXSAVE area.
func runKernel(args []string) error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the system call
		{Code: equal, Jf: 3, K: unix.SYS_PTRACE},
		{Code: load, K: 16}, // its first argument
		{Code: equal, Jf: 1, K: unix.PTRACE_GETREGSET},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{
		Len:    uint16(len(filter)),
		Filter: &filter[0],
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("installing a seccomp filter: %w", errno)
	}
	return syscall.Exec(args[0], args, os.Environ())
}
