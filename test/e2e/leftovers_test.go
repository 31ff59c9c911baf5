package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// leftovers are what a test may leave behind: the processes, mounts, cgroups, loop devices and files of an
// agent, of the storage of a plugin or of a docker daemon. Its directory identifies all of them.
type leftovers struct {
	dir   string
	mark  string          // the suffix of the IDs of this node's hostpath volumes, once it is known
	tasks map[string]bool // the names of the cgroups of tasks that were seen
}

func newLeftovers(dir string) leftovers {
	return leftovers{dir: dir, tasks: map[string]bool{}}
}

// endTimeout bounds each step of the end of leftovers.
const endTimeout = time.Minute

// data is a path below the data directory of an agent.
func (l *leftovers) data(elem ...string) string {
	return filepath.Join(append([]string{l.dir, "data"}, elem...)...)
}

// end ends and removes all. It removes no file below a mount that it cannot unmount.
func (l *leftovers) end() error {
	for _, step := range []func() error{l.endProcesses, l.unmount, l.removeCgroups, l.freeLoopDevices} {
		if err := step(); err != nil {
			return fmt.Errorf("ending what %s has left: %w", l.dir, err)
		}
	}
	return errors.Join(os.RemoveAll(l.addresses()), os.RemoveAll(l.dir))
}

// bridge returns the name of the agent's bridge. No other test has it: the records of addresses outlive the
// network namespaces of the tests, and also tests that were killed.
func (l *leftovers) bridge() string {
	return strings.ReplaceAll(filepath.Base(l.dir), "-", "") // at most 15 bytes, as a name of an interface
}

// addresses is where the plugin host-local records the addresses of the bridge.
func (l *leftovers) addresses() string {
	return filepath.Join("/var/lib/cni/networks", l.bridge())
}

// retry repeats check until it returns nil, at most for endTimeout.
func retry(check func() error) error {
	for limit := time.Now().Add(endTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil || time.Now().After(limit) {
			return err
		}
	}
}

// endProcesses kills until no process is left, because an agent or a task may start others meanwhile.
func (l *leftovers) endProcesses() error {
	return retry(func() error {
		left := l.processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Errorf("processes %v do not end", left)
		}
		return nil
	})
}

// processes lists the processes with a path of the directory in their arguments or their environment, those
// in the cgroups of its tasks, and the descendants of both.
func (l *leftovers) processes() []int {
	l.cgroups()
	return descendants(func(pid int) bool {
		return names(pid, "cmdline", l.dir) || names(pid, "environ", l.dir) || l.inCgroup(pid)
	})
}

// names reports whether a file of a process in /proc has a directory, or a path below it.
func names(pid int, file, dir string) bool {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	for {
		_, after, found := bytes.Cut(text, []byte(dir))
		if !found {
			return false
		}
		if len(after) == 0 || !('0' <= after[0] && after[0] <= '9') { // not a longer name
			return true
		}
		text = after
	}
}

// inCgroup reports whether a process is in the cgroup of a task, or below that of a docker daemon.
func (l *leftovers) inCgroup(pid int) bool {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	for line := range strings.Lines(string(text)) {
		for name := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if l.tasks[name] || name == filepath.Base(l.dir) {
				return true
			}
		}
	}
	return false
}

// descendants lists the chosen processes and their descendants.
func descendants(chosen func(pid int) bool) []int {
	pids, children := processTable()
	all := slices.DeleteFunc(pids, func(pid int) bool { return !chosen(pid) })
	for i := 0; i < len(all); i++ {
		for _, child := range children[all[i]] {
			if !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// processTable lists all processes, and their children by parent, without this process and without zombies.
func processTable() (pids []int, children map[int][]int) {
	children = map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		pids = append(pids, pid)
		children[parent] = append(children[parent], pid)
	}
	return pids, children
}

// unmount unmounts all below the directory. A mount may be below another one at the same place.
func (l *leftovers) unmount() error {
	return retry(func() error {
		left := mountsBelow(l.dir)
		for _, m := range left {
			_ = unix.Unmount(m, unix.MNT_DETACH)
		}
		if len(left) > 0 {
			return fmt.Errorf("mounts %v are busy", left)
		}
		return nil
	})
}

// mountsBelow lists the mount points of and below dir, the deepest first.
func mountsBelow(dir string) (points []string) {
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return nil
	}
	for _, i := range infos {
		if i.Mountpoint == dir || strings.HasPrefix(i.Mountpoint, dir+"/") {
			points = append(points, i.Mountpoint)
		}
	}
	slices.Sort(points)
	slices.Reverse(points)
	return points
}

// cgroups lists the cgroups of the agent's tasks, present and past, which are called like the directories
// that the drivers keep for tasks, and that of a docker daemon, which is called like its directory.
func (l *leftovers) cgroups() (groups []string) {
	dirs, _ := filepath.Glob(l.data("drivers", "*", "*"))
	for _, d := range dirs {
		l.tasks[filepath.Base(d)] = true
	}
	patterns := []string{"/sys/fs/cgroup/" + filepath.Base(l.dir), "/sys/fs/cgroup/*/" + filepath.Base(l.dir)}
	for name := range l.tasks {
		patterns = append(patterns, "/sys/fs/cgroup/berth/"+name, "/sys/fs/cgroup/*/berth/"+name)
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		groups = append(groups, found...)
	}
	return groups
}

// removeCgroups removes the cgroups and those below them. They are busy until the kernel has reaped the
// processes.
func (l *leftovers) removeCgroups() error {
	return retry(func() error {
		var errs []error
		for _, g := range l.cgroups() {
			var dirs []string
			_ = filepath.WalkDir(g, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil // one that has gone meanwhile is removed
			})
			for _, dir := range slices.Backward(dirs) {
				if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
					errs = append(errs, fmt.Errorf("%s: %w", dir, err))
				}
			}
		}
		return errors.Join(errs...)
	})
}

// loopDevices lists the loop devices of images below the directory, and those of the volumes of the agent's
// node: the kernel reports their files as the plugin's task saw them, so the node identifies them.
func (l *leftovers) loopDevices() (devices []string) {
	if id, err := os.ReadFile(l.data("client", "node-id")); err == nil {
		sum := sha256.Sum256(bytes.TrimSpace(id))
		l.mark = hex.EncodeToString(sum[:4])
	}
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		backing, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if strings.HasPrefix(string(backing), l.dir+"/") ||
			l.mark != "" && strings.Contains(string(backing), "-"+l.mark+"/") {
			devices = append(devices, "/dev/"+strings.Split(f, "/")[3])
		}
	}
	return devices
}

// freeLoopDevices waits for the devices that free themselves as their last mount goes.
func (l *leftovers) freeLoopDevices() error {
	return retry(func() error {
		left := l.loopDevices()
		for _, d := range left {
			_ = exec.Command("losetup", "-d", d).Run()
		}
		if len(left) > 0 {
			return fmt.Errorf("loop devices %v are busy", left)
		}
		return nil
	})
}
