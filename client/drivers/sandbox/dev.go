package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// device is a character device of every sandbox that is not privileged.
type device struct {
	name         string
	major, minor uint32
}

// devices has the numbers that Linux gives to these devices on every machine.
var devices = []device{
	{"null", 1, 3},
	{"zero", 1, 5},
	{"full", 1, 7},
	{"random", 1, 8},
	{"urandom", 1, 9},
	{"tty", 5, 0},
}

var devLinks = map[string]string{
	"/dev/ptmx":   "pts/ptmx",
	"/dev/fd":     "/proc/self/fd",
	"/dev/stdin":  "/proc/self/fd/0",
	"/dev/stdout": "/proc/self/fd/1",
	"/dev/stderr": "/proc/self/fd/2",
}

// devFS are the file systems of /dev. The first two allow device files. The terminals are an instance of its
// own, so that a task opens none of the host or of another task.
var devFS = []fileSystem{
	{"tmpfs", "/dev", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755,size=64k"},
	{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"},
	{"tmpfs", "/dev/shm", noSuidDevExec, "mode=1777,size=64m"},
}

// makeDev builds a minimal /dev.
func makeDev() error {
	// The nodes and file systems get exactly the modes of the lists.
	// This is the mask of this thread alone: unshare(CLONE_NEWNS) has separated it from the other threads.
	old := unix.Umask(0)
	defer unix.Umask(old)
	for _, f := range devFS {
		if err := f.mount(); err != nil {
			return err
		}
	}

	for _, d := range devices {
		number := unix.Mkdev(d.major, d.minor)
		err := unix.Mknod("/dev/"+d.name, unix.S_IFCHR|0o666, int(number))
		if err != nil {
			return fmt.Errorf("making /dev/%s: %w", d.name, err)
		}
	}

	for at, to := range devLinks {
		if err := os.Symlink(to, at); err != nil {
			return err
		}
	}

	return nil
}

// The files with which a root user without capabilities reaches beyond the sandbox: some change the kernel
// when they are written (settings, interrupts, reboots), and some show the memory, keys, timers or energy of
// others. The energy that a processor takes reveals the data that it handles.
var (
	procReadOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	procHidden   = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
)

// maskProc hides and protects these files by mounts, which hold for root, too: the program lacks the
// capability to change them.
func maskProc() error {
	for _, p := range procReadOnly {
		if err := bindReadOnly(p, p); err != nil {
			return err
		}
	}

	for _, p := range procHidden {
		info, err := os.Lstat(p)
		if err != nil {
			continue // this kernel does not have it
		}

		if info.IsDir() {
			err = unix.Mount(
				"berth", p, "tmpfs", noSuidDevExec|unix.MS_RDONLY, "size=4k")
		} else {
			err = bindReadOnly("/dev/null", p)
		}
		if err != nil {
			return fmt.Errorf("hiding %s: %w", p, err)
		}
	}
	return nil
}

// bindReadOnly binds a path read-only over another one or over itself. It ignores one that does not exist.
func bindReadOnly(from, to string) error {
	f, err := cloneReadOnly(from)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		defer f.Close()
		err = unix.MoveMount(
			int(f.Fd()), "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("protecting %s: %w", to, err)
	}
	return nil
}
