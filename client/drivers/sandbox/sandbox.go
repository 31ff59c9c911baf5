// Package sandbox runs one program in its own root and process tree and with a set of capabilities, with
// plain system calls and without cgo. A process of berth's own executable that was started as pid 1 of new
// pid, ipc and uts namespaces (Isolate) builds the root in a mount namespace, starts the program there and
// reaps (Run). When it ends, the kernel ends everything in the sandbox. The sandbox shares users with the
// host, and the network of pid 1. Start makes a sandbox with a pid 1 of its own (Init), which ends with
// the caller.
//
// Its rules: the host never sees a mount of the sandbox, except the program's own mounts below a
// bidirectional bind. The program is in its cgroup before its first instruction. pid 1 never is, so that
// it costs the task nothing and an out-of-memory kill does not hit it. pid 1 is never among the mounts of
// the sandbox, and the program cannot open its files. Root in the sandbox can ask it to end with SIGTERM.
//
// Before a task starts, its driver gives the directories of the task to the task's user (GiveTaskDirs). The
// task may change them meanwhile, so no step follows a symbolic link.
//
// The package needs Linux 5.12 (mount_setattr). Supported checks this.
package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
)

// Config describes a sandbox.
type Config struct {
	Root string // a directory of the host; the root is mounted over it, invisible to the host
	// HostPaths maps paths of the host to the paths at which the program sees them, read-only. Symlinks stay
	// symlinks. A path that does not exist is ignored.
	HostPaths map[string]string
	// Hidden are paths of the host that the program sees empty wherever HostPaths show them. One that does
	// not exist is ignored. A file that the host replaces shows again, and a file in a directory never does.
	Hidden []string
	// Files are files and directories of the host that the program sees, read-only, at the root, by links.
	// Those of a directory that HostPaths show, too, are among its files. No two have the same name.
	Files []string
	Binds []Bind // in this order
	// Hostname is the host name that the program sees, "" for the real one.
	Hostname string
	// Privileged keeps all capabilities and system calls, shows the host's /dev and leaves /sys and /proc
	// writable. Another sandbox mounts everything nosuid, and nodev except its own /dev and devices.
	Privileged bool
	Program    Program
}

// The propagations of a Bind.
const (
	Private       = ""       // neither side sees later mounts of the other side
	HostToTask    = "slave"  // the program sees later mounts of the host
	Bidirectional = "shared" // each side sees later mounts of the other; Source is on a shared mount
)

// Bind shows a host path inside the sandbox.
type Bind struct {
	Source      string
	Target      string // absolute; made when it is not there
	ReadOnly    bool
	Propagation string
	Device      bool // Source is a device node that the program may open

	alone bool // without the mounts below Source
}

// Exit describes the end of the program.
type Exit struct {
	Code   int // 0 with a Signal
	Signal int // that killed it, 0 for none
}

// message is a JSON value on the socket between Start and Init. The parent sends a Config. Pid 1 sends
// Started or Error, then Exit.
type message struct {
	Config  *Config        `json:",omitempty"`
	Group   *cgroups.Group `json:",omitempty"` // with Config: the program's
	Started bool           `json:",omitempty"`
	Exit    *Exit          `json:",omitempty"`
	Error   string         `json:",omitempty"` // of structs.ErrorToWire
}

// RuntimeEnv is the environment of a process of berth's own executable: only the settings of the Go runtime,
// with at most procs processors.
func RuntimeEnv(procs int) []string {
	// Without a bound, the runtime of each of these small processes would use all processors of the machine.
	env := []string{fmt.Sprintf("GOMAXPROCS=%d", procs)}
	settings := []string{
		"GOCOVERDIR", "GODEBUG", "GOGC", "GOMEMLIMIT", "GORACE", "GOTRACEBACK",
	}
	for _, name := range settings {
		v, ok := os.LookupEnv(name)
		if ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// socketFD is the file descriptor of Init's socket.
const socketFD = 3

// Supported returns the reason for which the kernel cannot run a sandbox for this process, nil if it can.
func Supported() error {
	// The call fails in any case. ENOSYS tells that the kernel does not know it.
	err := unix.MountSetattr(-1, "", 0, &unix.MountAttr{})
	if errors.Is(err, unix.ENOSYS) {
		return errors.New("the kernel has no mount_setattr (Linux 5.12 or newer is needed)")
	}
	if unix.Geteuid() != 0 {
		return errors.New("the agent does not run as root")
	}
	own, err := capabilities()
	if err != nil {
		return fmt.Errorf("reading the agent's capabilities: %w", err)
	}

	// Root in a container may lack it, and cannot mount then.
	if own[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return errors.New("the agent lacks the capability CAP_SYS_ADMIN")
	}
	return nil
}
