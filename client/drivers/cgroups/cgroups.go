// Package cgroups limits the resources of the processes of a task, counts their usage, and finds all of them
// for a kill. It writes the control files of cgroup v2 and v1 itself. For each controller it finds which of
// the two the machine has, because hybrid machines mix them. It works with the available controllers. Detect
// reports the missing ones and the reasons.
//
// Its rules: a Group is plain data that another process can use after this one was killed. A kill opens a
// pidfd of a process, and then signals it only if the group still has it. The calling process is never
// killed.
package cgroups

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// The controllers that the package uses.
const (
	CPU     = "cpu"
	CPUAcct = "cpuacct" // v1 only; in v2 part of cpu
	Memory  = "memory"
	PIDs    = "pids"
	Devices = "devices" // v1 only; in v2 a program of the kernel, on every group
)

// wanted are the controllers that tasks need. Machine.Missing has a reason for each that is not there.
var wanted = []string{CPU, CPUAcct, Memory, PIDs, Devices}

// Machine has the hierarchies of a machine.
type Machine struct {
	V1      map[string]string // mount point by controller
	V2      string            // mount point of the unified hierarchy, "" if there is none or v1 suffices
	V2Has   []string          // controllers of the unified hierarchy
	Missing map[string]string // reason by controller that no hierarchy has
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

// detect reads a table of mounts. A hierarchy that is not mounted cannot be used.
func detect(table string) (*Machine, error) {
	all, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}

	// The library rejects a whole table for one line that it cannot parse, of whatever file system.
	var own bytes.Buffer
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, " - cgroup") {
			own.WriteString(line)
		}
	}

	isCgroup := mountinfo.FSTypeFilter("cgroup", "cgroup2")
	mounts, err := mountinfo.GetMountsFromReader(&own, isCgroup)
	if err != nil {
		return nil, err
	}

	m := &Machine{
		V1:      map[string]string{},
		Missing: map[string]string{},
	}
	for _, mount := range mounts {
		m.addHierarchy(mount)
	}

	m.leaveUnneeded()
	m.noteMissing()
	return m, nil
}

// noteMissing enters the controllers that no hierarchy has. In v2, cpu counts the usage, too, and devices
// need no controller.
func (m *Machine) noteMissing() {
	for _, c := range wanted {
		if m.V1[c] == "" &&
			!slices.Contains(m.V2Has, c) &&
			(c != CPUAcct || !slices.Contains(m.V2Has, CPU)) &&
			(c != Devices || m.V2 == "") {
			m.Missing[c] = "no cgroup hierarchy has the " + c + " controller"
		}
	}
}

// addHierarchy enters a mounted hierarchy. The options of a mount of v1 name its controllers, which may be
// several.
func (m *Machine) addHierarchy(mount *mountinfo.Info) {
	if mount.FSType == "cgroup2" {
		m.V2 = mount.Mountpoint
		// A controller that v1 has is not in this list. Without the file there is none.
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

// leaveUnneeded leaves the unified hierarchy unused if v1 has all controllers. A process that is moved into a
// group of it waits 8 to 16 ms for the kernel, and a thread that enters a group of v1 does not.
func (m *Machine) leaveUnneeded() {
	for _, c := range wanted {
		if m.V1[c] == "" {
			return
		}
	}
	m.V2 = ""
	m.V2Has = nil
}

// Limits bound a group; zero is no limit.
type Limits struct {
	CPUCores      int   // the processors that the group may use at a time, if the kernel has such a bound
	CPUShares     int   // weight in MHz, relative to the other groups
	MemoryBytes   int64 // the kernel kills a process of the group that needs more
	MemoryReserve int64 // the memory that the group keeps when the machine runs short
	PIDs          int64 // processes and threads; beyond it fork fails with EAGAIN
	Devices       []DeviceRule
}

// Group has the cgroups of one task, one directory in each used hierarchy. The zero Group belongs to a task
// without cgroups: it accepts every call and holds no process.
type Group struct {
	V1 map[string]string // directory by controller
	V2 string            // directory in the unified hierarchy, "" if it is not used
}

// Empty reports whether no hierarchy is used.
func (g *Group) Empty() bool {
	return g.V2 == "" && len(g.V1) == 0
}

// Path returns the group <parent>/<name>, which need not exist.
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

// New makes the group <parent>/<name> with its limits. A machine without any hierarchy fails. New first
// removes a group that a crash has left: a killed group cannot be used again (kernels kill new processes in
// it). If New fails it leaves at most a group with processes in it.
func (m *Machine) New(parent, name string, limits Limits) (*Group, error) {
	g := m.Path(parent, name)
	if g.Empty() {
		return nil, fmt.Errorf("no cgroup hierarchy can be used: %s", m.Missing[Memory])
	}
	err := g.Remove()
	if err != nil {
		return nil, err
	}
	err = m.makeGroup(g, parent, limits)
	if err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// makeGroup makes the directories and sets the limits. No process enters the group before both are done.
func (m *Machine) makeGroup(g *Group, parent string, limits Limits) error {
	if m.V2 != "" {
		err := m.enableControllers(parent)
		if err != nil {
			return err
		}
	}
	for _, dir := range g.Dirs() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a cgroup: %w", err)
		}
	}
	return errors.Join(
		g.applyLimits(limits),
		g.RestrictDevices(limits.Devices),
	)
}

// enableControllers hands the controllers of the unified hierarchy down to the parent's children.
func (m *Machine) enableControllers(parent string) error {
	return m.HandDown(parent, wanted...)
}

// HandDown makes a group of the unified hierarchy, and hands the controllers, as far as the machine has them,
// down to its children.
func (m *Machine) HandDown(parent string, controllers ...string) error {
	dirs := []string{m.V2}
	for name := range strings.SplitSeq(parent, "/") {
		dirs = append(dirs, filepath.Join(dirs[len(dirs)-1], name))
	}

	dir := dirs[len(dirs)-1]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the cgroup %s: %w", dir, err)
	}

	for _, c := range controllers {
		if !slices.Contains(m.V2Has, c) {
			continue
		}

		// From the top down, because a group can hand down only what it has itself.
		for _, d := range dirs {
			// The write changes nothing where the group hands the controller down already.
			file := filepath.Join(d, "cgroup.subtree_control")
			if err := writeControl(file, "+"+c); err != nil {
				return fmt.Errorf("handing the controller %s down: %w", c, err)
			}
		}
	}

	return nil
}

// IsUnified reports whether the machine has the unified hierarchy alone, with the controllers that
// limit tasks.
func (m *Machine) IsUnified() bool {
	return len(m.V1) == 0 && slices.Contains(m.V2Has, CPU) && slices.Contains(m.V2Has, Memory)
}

// Dirs returns the group's directories, each once (v1 controllers may share one).
func (g *Group) Dirs() []string {
	dirs := slices.Collect(maps.Values(g.V1))
	if g.V2 != "" {
		dirs = append(dirs, g.V2)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Name returns one of the group's directories, for messages.
func (g *Group) Name() string {
	for _, dir := range g.Dirs() {
		return dir
	}
	return ""
}

// probes counts the groups that Probe makes, because drivers probe at the same time.
var probes atomic.Int64

// Probe makes and removes a group, to find out whether New can work. It adds to Missing if the kernel rejects
// to restrict devices: cgroup v2 needs a program for that, which a kernel or a container may not allow.
func (m *Machine) Probe(parent string) error {
	name := fmt.Sprintf("probe-%d-%d", os.Getpid(), probes.Add(1))
	g, err := m.New(parent, name, Limits{})
	if err != nil {
		return err
	}
	err = g.RestrictDevices(StandardDevices())
	if err != nil {
		m.Missing[Devices] = err.Error()
	}
	return g.Remove()
}

// writeControl writes a control file. It does not create one: a missing control file is an error.
func writeControl(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	err = uninterrupted(func() error {
		_, err := unix.Write(fd, []byte(text))
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s to %s: %w", text, path, err)
	}
	return nil
}

// uninterrupted repeats a system call that a signal has ended. The kernel ends the write of a limit of memory
// so, and the runtime of Go sends signals to its own threads.
func uninterrupted(call func() error) error {
	for {
		err := call()
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
