package packages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// patience bounds the repetitions of a command that comes too early, and the start of an agent.
const patience = 2 * time.Minute

// path is the PATH of the machine.
const path = "/usr/sbin:/usr/bin:/sbin:/bin"

// systemd is the first process of the machine after its set-up.
const systemd = "/lib/systemd/systemd"

// asMachine is the first argument of this binary as the first process of a machine.
const asMachine = "machine"

// masked are the units that would change the kernel, which the machine shares with this one.
var masked = []string{
	"dev-hugepages.mount",
	"proc-sys-fs-binfmt_misc.automount",
	"sys-kernel-config.mount",
	"sys-kernel-debug.mount",
	"sys-kernel-tracing.mount",
	"systemd-binfmt.service",
	"systemd-modules-load.service",
	"systemd-random-seed.service",
	"systemd-sysctl.service",
	"systemd-timesyncd.service",
	"systemd-udev-trigger.service",
	"systemd-udevd.service",
}

// runMachine is the first process of a machine until it becomes systemd. Its argument is the directory of the
// test, which the machine has at /mnt.
func runMachine(dir string) error {
	runtime.LockOSThread() // the namespace of cgroups is that of the thread
	controllers, err := enterCgroup(filepath.Base(dir))
	if err != nil {
		return fmt.Errorf("entering a cgroup: %w", err)
	}
	root, err := makeRoot(dir)
	if err != nil {
		return fmt.Errorf("making the root: %w", err)
	}
	found, err := filepath.Glob(dir + "/first/*.deb")
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the packages of Debian are %q: %w", found, err)
	}
	err = removePrograms(root, found[0])
	if err != nil {
		return fmt.Errorf("removing programs: %w", err)
	}
	err = errors.Join(
		os.Mkdir(root+"/run/former", 0o755),
		unix.PivotRoot(root, root+"/run/former"),
		os.Chdir("/"),
		unix.Unmount("/run/former", unix.MNT_DETACH),
		unix.Mount("none", "/sys/fs/cgroup", "cgroup2", 0, ""),
		mountControllers(controllers),
		os.RemoveAll("/etc/berth"),
		os.RemoveAll("/var/lib/berth"),
		os.RemoveAll("/var/lib/man-db/auto-update"), // an index of all pages takes a minute
		os.RemoveAll("/etc/systemd/system"),
		os.Mkdir("/etc/systemd/system", 0o755),
		exec.Command("ip", "link", "set", "lo", "up").Run(),
	)
	for _, unit := range masked {
		err = errors.Join(err, os.Symlink("/dev/null", "/etc/systemd/system/"+unit))
	}
	if err != nil {
		return err
	}
	environment := []string{"container=other", "PATH=" + path}
	return unix.Exec(systemd, []string{systemd, "--unit=basic.target", "--log-target=null"}, environment)
}

// makeRoot makes the files of the machine: those of this one, with a layer above that ends with the machine.
func makeRoot(dir string) (root string, err error) {
	layer := filepath.Join(dir, "layer")
	root = filepath.Join(layer, "root")
	return root, errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		os.Mkdir(layer, 0o755),
		unix.Mount("tmpfs", layer, "tmpfs", 0, ""), // not every file system takes the layer of another one
		os.Mkdir(layer+"/upper", 0o755),
		os.Mkdir(layer+"/work", 0o755),
		os.Mkdir(root, 0o755),
		unix.Mount("overlay", root, "overlay", 0,
			"lowerdir=/,upperdir="+layer+"/upper,workdir="+layer+"/work"),
		unix.Mount("/dev", root+"/dev", "", unix.MS_BIND|unix.MS_REC, ""),
		unix.Mount("sysfs", root+"/sys", "sysfs", 0, ""),
		unix.Mount("proc", root+"/proc", "proc", 0, ""),
		unix.Mount("tmpfs", root+"/run", "tmpfs", 0, "mode=755"),
		unix.Mount("tmpfs", root+"/tmp", "tmpfs", 0, "mode=1777"),
		unix.Mount(dir, root+"/mnt", "", unix.MS_BIND, ""),
	)
}

// enterCgroup makes a group of cgroup v2 the root of the machine's cgroups. It returns the controllers of v1.
func enterCgroup(name string) (controllers []string, err error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if m.FSType == "cgroup2" {
			group := filepath.Join(m.Mountpoint, name)
			err = errors.Join(err, os.Mkdir(group, 0o755),
				os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0))
			continue
		}
		for option := range strings.SplitSeq(m.VFSOptions, ",") {
			if slices.Contains([]string{"cpu", "cpuacct", "memory", "pids", "devices"}, option) {
				controllers = append(controllers, option)
			}
		}
	}
	return controllers, errors.Join(err, unix.Unshare(unix.CLONE_NEWCGROUP))
}

// mountControllers mounts controllers of cgroup v1, apart from the hierarchy that systemd uses.
func mountControllers(controllers []string) (err error) {
	for _, c := range controllers {
		dir := "/run/cgroup/" + c
		err = errors.Join(err, os.MkdirAll(dir, 0o755), unix.Mount("none", dir, "cgroup", 0, c))
	}
	return err
}

// machine is a machine of a test.
type machine struct {
	t   *testing.T
	pid string
}

// newMachine starts a machine, and waits until systemd has booted. It ends with the test, with all its
// processes and mounts.
func newMachine(t *testing.T, dir string) *machine {
	t.Helper()
	runtime.LockOSThread() // the death signal is bound to it
	t.Cleanup(runtime.UnlockOSThread)
	cmd := exec.Command("/proc/self/exe", asMachine, dir)
	cmd.Stdout = os.Stderr
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS,
		Pdeathsig: unix.SIGKILL,
	}
	kit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it never ends by itself
		_ = cmd.Wait()         // the error is that of the kill
	})
	m := &machine{t: t, pid: strconv.Itoa(cmd.Process.Pid)}
	m.await("systemctl is-active basic.target")
	return m
}

// command returns a command line of a shell on the machine, as root after a login.
func (m *machine) command(line string) *exec.Cmd {
	cmd := exec.Command("nsenter", "-t", m.pid, "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w",
		"sh", "-ec", line)
	cmd.Env = []string{
		"PATH=" + path,
		"HOME=/root",
		"LC_ALL=C",
		"DEBIAN_FRONTEND=noninteractive",
	}
	return cmd
}

// must runs a command line that succeeds, and returns its output.
func (m *machine) must(line string) string {
	m.t.Helper()
	out, err := m.command(line).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v: %s\n%s", line, err, out, m.log())
	}
	return string(out)
}

// mustFail runs a command line that fails, and returns its output.
func (m *machine) mustFail(line string) string {
	m.t.Helper()
	out, err := m.command(line).CombinedOutput()
	if err == nil {
		m.t.Fatalf("%s: succeeds: %s", line, out)
	}
	return string(out)
}

// await runs a command line until it succeeds.
func (m *machine) await(line string) string {
	m.t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		out, err := m.command(line).CombinedOutput()
		if err == nil {
			return string(out)
		}
		if time.Now().After(limit) {
			m.t.Fatalf("%s: not within %s: %v: %s\n%s", line, patience, err, out, m.log())
		}
	}
}

// log returns the end of the log of the agent.
func (m *machine) log() string {
	out, err := m.command("journalctl -u berth -u berth-server -n 40 --no-pager").CombinedOutput()
	if err != nil {
		return "" // the machine has not booted
	}
	return string(out)
}

// removeCgroups removes the groups of a name in all hierarchies. Ended processes have left them.
func removeCgroups(t *testing.T, name string) {
	for limit := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		for _, root := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} { // v2 and v1
			found, _ := filepath.Glob(root + name) // the pattern is valid
			for _, group := range found {
				left = append(left, removeGroup(group)...)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Errorf("these cgroups are busy: %s", strings.Join(left, " "))
			return
		}
	}
}

// removeGroup removes a cgroup and those below it, and returns those that are busy.
func removeGroup(group string) (busy []string) {
	entries, _ := os.ReadDir(group) // none if the group is gone
	for _, e := range entries {
		if e.IsDir() {
			busy = append(busy, removeGroup(filepath.Join(group, e.Name()))...)
		}
	}
	err := unix.Rmdir(group)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		busy = append(busy, group)
	}
	return busy
}
