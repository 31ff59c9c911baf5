package dockertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// NodeIP is an address of the network namespace of StartBridged, beside the loopback address.
const NodeIP = "10.99.0.1"

// StartBridged starts a daemon with a bridge until the end of the test. The daemon, its bridge and its packet
// filter are in a network namespace of their own.
func StartBridged(t testing.TB) *Daemon {
	t.Helper()
	d := prepare(t, []string{"--bridge=", "--bip=10.98.0.1/24", "--iptables=true"})
	d.makeNamespace()
	d.runContainerd()
	d.Run()
	return d
}

// makeNamespace makes a network namespace, which exists as long as this process or the daemon uses it. It
// skips the test if the machine does not let the daemon use it.
func (d *Daemon) makeNamespace() {
	d.t.Helper()
	// A new namespace belongs to the thread that makes it, and this file keeps it.
	unshare := func() error { return unix.Unshare(unix.CLONE_NEWNET) }
	err := inNamespace(unshare, func() (err error) {
		d.namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		kit.SkipLacking(d.t, "no network namespace: "+err.Error())
	}

	d.t.Cleanup(func() { _ = d.namespace.Close() })
	// These are the calls of a daemon that makes a bridge. What fails here would end the daemon.
	for _, command := range []string{
		"ip link set lo up",
		"ip address add " + NodeIP + "/32 dev lo",
		"ip link add probe type bridge",
		"ip link delete probe",
		"iptables -t nat -S",
	} {
		_, err := d.runInside(command)
		if err != nil {
			kit.SkipLacking(d.t, "no network for a docker daemon: "+err.Error())
		}
	}
}

// Inside runs f in the network namespace of the daemon: f's goroutine opens sockets and starts programs
// there.
func (d *Daemon) Inside(f func() error) error {
	if d.namespace == nil {
		return f()
	}
	return inNamespace(func() error { return unix.Setns(int(d.namespace.Fd()), unix.CLONE_NEWNET) }, f)
}

// inNamespace runs f on a thread in another network namespace.
func inNamespace(enter, f func() error) error {
	// Namespaces belong to threads, and the scheduler moves goroutines between them.
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()

	err = enter()
	if err == nil {
		err = f()
	}

	back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET)
	if back != nil {
		return errors.Join(err, back) // the thread stays locked: it is not for other goroutines
	}

	runtime.UnlockOSThread()
	return err
}

// runInside runs a command in the namespace and returns its output.
func (d *Daemon) runInside(command string) (string, error) {
	var out []byte
	err := d.Inside(func() (err error) {
		words := strings.Fields(command)
		out, err = exec.Command(words[0], words[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", command, err, out)
	}

	return string(out), err
}

// Network describes all that the daemon has in its namespace for containers: interfaces, rules of the packet
// filter, and namespaces of containers.
func (d *Daemon) Network() string {
	d.t.Helper()
	var all []string
	err := d.Inside(func() error {
		links, err := net.Interfaces()
		for _, link := range links {
			all = append(all, link.Name)
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}

	// These tables have the rules for published ports.
	for _, table := range []string{"filter", "nat"} {
		rules, err := d.runInside("iptables -S -t " + table)
		if err != nil {
			d.t.Fatal(err)
		}

		all = append(all, rules)
	}

	namespaces, err := mountinfo.GetMounts(mountinfo.PrefixFilter(d.path("exec")))
	if err != nil {
		d.t.Fatal(err)
	}

	for _, m := range namespaces {
		all = append(all, m.Mountpoint)
	}

	return strings.Join(all, "\n")
}

// Members lists the programs in the namespace.
func (d *Daemon) Members() []string {
	d.t.Helper()
	// The name of a file of a namespace has its number, which is the same for all its members.
	own, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", d.namespace.Fd()))
	if err != nil {
		d.t.Fatal(err)
	}

	var programs []string
	paths, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, path := range paths {
		found, err := os.Readlink(path)
		if err == nil && found == own {
			program, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "..", "comm"))
			programs = append(programs, strings.TrimSpace(string(program)))
		}
	}

	return programs
}
