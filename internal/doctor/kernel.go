package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// checkKernel looks for the calls that the files of allocations (5.6) and the driver exec (5.12) need.
func checkKernel(_ context.Context, m *Machine) []Finding {
	release, err := m.read("proc/sys/kernel/osrelease")
	if err != nil {
		return one(Fail, fmt.Sprintf("/proc does not tell the release of the kernel: %v", err),
			"mount /proc: berth runs on Linux alone, and reads it")
	}

	major, minor := parseRelease(release)
	before := func(a, b int) bool { return major < a || major == a && minor < b }
	switch {
	case !m.Client:
		return one(OK, "Linux "+release+" runs servers", "")
	case before(5, 6):
		return one(Fail, "Linux "+release+" is too old for a node, which needs 5.6",
			"install a kernel of 5.12 or later")
	case before(5, 12):
		return one(Warn, "Linux "+release+" is too old for the driver exec, which needs 5.12",
			"install a kernel of 5.12 or later, or use the drivers docker and raw_exec")
	}
	return one(OK, "Linux "+release+" has all that nodes use", "")
}

// parseRelease returns 6 and 1 for 6.1.0-28-amd64, and 0 for a number that is none.
func parseRelease(release string) (major, minor int) {
	first, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	major, _ = strconv.Atoi(first) // 0 is an old kernel, which the caller reports
	minor, _ = strconv.Atoi(rest)
	return major, minor
}

// controllers are the cgroup controllers that limit tasks, with the limit that each gives.
var controllers = []struct{ name, limit string }{
	{"cpu", "CPU"},
	{"memory", "memory"},
	{"pids", "processes"},
}

const cgroupRemedy = "boot with systemd.unified_cgroup_hierarchy=1 and cgroup_enable=memory in the command " +
	"line of the kernel; in a container, give it the cgroups of the machine to write"

// checkCgroups looks for the controllers in cgroup v2 and v1, as the drivers do.
func checkCgroups(_ context.Context, m *Machine) []Finding {
	if !m.Client {
		return one(Skip, "servers alone need no cgroups", "")
	}

	mounts, err := m.mounts("cgroup", "cgroup2")
	if err != nil {
		return one(Fail, fmt.Sprintf("the mounts of the machine cannot be read: %v", err), "mount /proc")
	}
	if len(mounts) == 0 {
		return one(Fail, "no cgroup hierarchy is mounted, so tasks have no limits",
			"mount -t cgroup2 none /sys/fs/cgroup")
	}

	writable := map[string]bool{} // by controller; an absent one is not mounted
	for _, mount := range mounts {
		names := strings.Split(mount.VFSOptions, ",")
		if mount.FSType == "cgroup2" {
			list, _ := m.read(mount.Mountpoint + "/cgroup.controllers") // none, which is reported below
			names = strings.Fields(list)
		}
		for _, name := range names {
			writable[name] = writable[name] || !slices.Contains(strings.Split(mount.Options, ","), "ro")
		}
	}

	var lacks []Finding
	for _, c := range controllers {
		canWrite, mounted := writable[c.name]
		text := ""
		switch {
		case !mounted:
			text = fmt.Sprintf("no cgroup hierarchy has the controller %s, so tasks have no limit of %s",
				c.name, c.limit)
		case !canWrite:
			text = fmt.Sprintf("the cgroup hierarchy of the controller %s is mounted read-only", c.name)
		default:
			continue
		}
		lacks = append(lacks, Finding{Result: Fail, Text: text, Remedy: cgroupRemedy})
	}
	if len(lacks) > 0 {
		return lacks
	}
	return one(OK, "the controllers cpu, memory and pids limit tasks", "")
}

// mounts returns the mounts with one of some types; without a type, all mounts. The library rejects a whole
// table for one line that it cannot parse, so lines of other types are left out before.
func (m *Machine) mounts(types ...string) ([]*mountinfo.Info, error) {
	table, err := os.ReadFile(m.path("proc/self/mountinfo"))
	if err != nil {
		return nil, err
	}

	var all []*mountinfo.Info
	for line := range strings.Lines(string(table)) {
		found, err := mountinfo.GetMountsFromReader(strings.NewReader(line), nil)
		if err != nil || len(found) == 0 {
			continue
		}
		if len(types) == 0 || slices.Contains(types, found[0].FSType) {
			all = append(all, found[0])
		}
	}
	return all, nil
}

// mountOf returns the mount that has a path, nil if there is none. Later mounts cover earlier ones.
func (m *Machine) mountOf(path string) *mountinfo.Info {
	mounts, err := m.mounts()
	if err != nil {
		return nil
	}

	var nearest *mountinfo.Info
	for _, mount := range mounts {
		point := strings.TrimSuffix(mount.Mountpoint, "/") + "/"
		if !strings.HasPrefix(path+"/", point) {
			continue
		}
		if nearest == nil || len(mount.Mountpoint) >= len(nearest.Mountpoint) {
			nearest = mount
		}
	}
	return nearest
}
