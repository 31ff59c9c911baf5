// Package cgroups limits the resources of the processes of a task, counts their usage, and finds all of them
// for a kill. It writes the control files of cgroup v2 and v1 itself. For each controller it finds which of
// the two the machine has, because hybrid machines mix them. It works with the available controllers. Detect
// reports the missing ones and the reasons.
//
// Its rules: a Group is plain data that another process can use after this one was killed. A process is
// signalled only if it is seen in the group while a pidfd on it is held. The own process is never killed.
package cgroups

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// The controllers that are used where the machine has them.
const (
	CPU     = "cpu"
	CPUAcct = "cpuacct" // v1 only; in v2 part of cpu
	Memory  = "memory"
	PIDs    = "pids"
)

var wanted = []string{CPU, CPUAcct, Memory, PIDs}

// Machine is where the controllers are: mount points by controller, and for those that cannot be used why.
type Machine struct {
	V1      map[string]string
	V2      string // mount point of the unified hierarchy, "" if there is none
	V2Has   []string
	Missing map[string]string
}

// Detect finds the controllers of this machine.
func Detect() *Machine {
	m, err := detect("/proc/self/mountinfo")
	if err != nil {
		m = &Machine{Missing: map[string]string{}}
		for _, c := range wanted {
			m.Missing[c] = err.Error()
		}
	}
	return m
}

func detect(table string) (*Machine, error) {
	all, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}
	// The library refuses a whole table for one line that it cannot parse, of whatever file system.
	var own strings.Builder
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, " - cgroup") {
			own.WriteString(line)
		}
	}
	isCgroup := mountinfo.FSTypeFilter("cgroup", "cgroup2")
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(own.String()), isCgroup)
	if err != nil {
		return nil, err
	}
	m := &Machine{V1: map[string]string{}, Missing: map[string]string{}}
	for _, mount := range mounts {
		m.addHierarchy(mount)
	}
	for _, c := range wanted {
		if m.V1[c] == "" && !slices.Contains(m.V2Has, c) && (c != CPUAcct || !slices.Contains(m.V2Has, CPU)) {
			m.Missing[c] = "no cgroup hierarchy has the " + c + " controller"
		}
	}
	return m, nil
}

func (m *Machine) addHierarchy(mount *mountinfo.Info) {
	if mount.FSType == "cgroup2" {
		m.V2 = mount.Mountpoint
		b, _ := os.ReadFile(filepath.Join(m.V2, "cgroup.controllers"))
		m.V2Has = strings.Fields(string(b))
		return
	}
	for o := range strings.SplitSeq(mount.VFSOptions, ",") {
		if slices.Contains(wanted, o) {
			m.V1[o] = mount.Mountpoint
		}
	}
}

// Limits bound a group; zero is no limit.
type Limits struct {
	CPUShares     int   // weight in MHz, relative to the other groups
	MemoryBytes   int64 // more is killed
	MemoryReserve int64 // the memory that is kept for the group when the machine runs short
	PIDs          int64 // processes and threads; fork fails with EAGAIN beyond it
}

// Group is the cgroups of one task, one directory in each hierarchy that is used. The zero Group is of a
// task without cgroups: it accepts every call and holds no process.
type Group struct {
	V1 map[string]string // directory by controller
	V2 string            // directory in the unified hierarchy, "" if it is not used
}

// Empty reports whether no hierarchy is used.
func (g *Group) Empty() bool { return g.V2 == "" && len(g.V1) == 0 }

// Path is where a group of the name is, made or not.
func (m *Machine) Path(parent, name string) *Group {
	g := &Group{V1: map[string]string{}}
	for c, point := range m.V1 {
		g.V1[c] = filepath.Join(point, parent, name)
	}
	if m.V2 != "" {
		g.V2 = filepath.Join(m.V2, parent, name)
	}
	return g
}

// New makes the group <parent>/<name> with its limits. It first removes a group that a crash has left: a
// killed group cannot be used again (kernels kill new processes in it). If New fails it leaves at most a
// group with processes in it.
func (m *Machine) New(parent, name string, limits Limits) (*Group, error) {
	g := m.Path(parent, name)
	if err := g.Remove(); err != nil {
		return nil, err
	}
	if err := m.makeGroup(g, parent, limits); err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

func (m *Machine) makeGroup(g *Group, parent string, limits Limits) error {
	if m.V2 != "" {
		if err := enable(m.V2, parent, m.V2Has); err != nil {
			return err
		}
	}
	for _, dir := range g.dirs() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a cgroup: %w", err)
		}
	}
	return g.limit(limits)
}

// enable hands the controllers of the unified hierarchy down to the parent's children.
func enable(point, parent string, has []string) error {
	dir := filepath.Join(point, parent)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the cgroup %s: %w", dir, err)
	}
	for _, c := range wanted {
		if !slices.Contains(has, c) {
			continue
		}
		for _, d := range []string{point, dir} {
			if err := writeControl(filepath.Join(d, "cgroup.subtree_control"), "+"+c); err != nil {
				return fmt.Errorf("handing the controller %s down: %w", c, err)
			}
		}
	}
	return nil
}

// dirs are the group's directories, each once (v1 controllers may share one).
func (g *Group) dirs() []string {
	var dirs []string
	for _, d := range g.V1 {
		dirs = append(dirs, d)
	}
	if g.V2 != "" {
		dirs = append(dirs, g.V2)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Probe makes and removes a group, to find out whether New can work; a machine without any hierarchy fails.
func (m *Machine) Probe(parent string) error {
	if m.V2 == "" && len(m.V1) == 0 {
		return errors.New("no cgroup hierarchy is mounted")
	}
	g, err := m.New(parent, fmt.Sprintf("probe-%d", os.Getpid()), Limits{})
	if err != nil {
		return err
	}
	return g.Remove()
}

// writeFile does not create: a control file that is not there is an error.
func writeControl(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return &os.PathError{Op: "write " + text + " to", Path: path, Err: err}
	}
	return nil
}
