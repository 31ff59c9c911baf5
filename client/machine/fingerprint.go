// Package machine reads the properties of a machine (ReadFacts, ReadTopology): processor, memory, disk,
// kernel, names. It measures its usage (Host, Meter): processors, memory and file systems. It reads /proc
// and the kernel. It runs no programs, starts no goroutine and keeps nothing.
//
// Attributes have the names of the dialect that constraints use (kernel.name, cpu.arch, ...). An attribute
// that differs from node to node by its nature begins with "unique.": the servers omit it from the computed
// class of a node. An unknown property is omitted and never guessed. It is an error only if nothing is known
// of the memory or of the processors.
//
// ReadNetworks finds the host networks: the addresses whose ports allocations get. The network "default" is
// one address of one interface, which the configuration names or else the default route has. The
// configuration adds networks by interface or CIDR.
//
// Drivers and CSI plugins fingerprint themselves.
package machine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/structs"
)

// Facts is the result of the fingerprint.
type Facts struct {
	Hostname   string
	Attributes map[string]string
	Resources  structs.NodeResources
}

// ReadFacts fingerprints this machine. dir is on the file system that allocations use.
func ReadFacts(dir string) (*Facts, error) {
	return readHost("/", dir)
}

// readHost reads <root>/proc, <root>/sys and <root>/etc. Tests have their own root.
func readHost(root, dir string) (*Facts, error) {
	f := &Facts{Attributes: map[string]string{}}
	err := errors.Join(f.cpu(root), f.memory(root), f.disk(dir))
	f.kernel()
	f.system(root)
	f.network()
	return f, err
}

// cpu sums up the speed of all cores, in MHz.
func (f *Facts) cpu(root string) error {
	b, err := os.ReadFile(filepath.Join(root, "proc/cpuinfo"))
	if err != nil {
		return fmt.Errorf("fingerprinting the processors: %w", err)
	}

	model, mhz := parseCPU(string(b))
	mhz = speedOf(root, mhz)
	cores := runtime.NumCPU() // those this process may run on
	f.Resources.CPU = structs.NodeCPUResources{
		CpuShares:     int64(mhz) * int64(cores),
		TotalCpuCores: uint16(cores),
	}
	f.setAttribute("cpu.arch", runtime.GOARCH)
	f.setAttribute("cpu.modelname", model)
	f.setAttribute("cpu.numcores", cores)
	f.setAttribute("cpu.frequency", mhz)
	f.setAttribute("cpu.totalcompute", f.Resources.CPU.CpuShares)
	return nil
}

// speedOf returns the speed in MHz that a core counts for, given the highest current frequency.
func speedOf(root string, mhz int) int {
	// The highest frequency does not vary with the load.
	if fast := maxFrequency(root); fast > 0 {
		mhz = fast
	}
	mhz = (mhz + 50) / 100 * 100 // the current frequency varies
	if mhz <= 0 {
		return 1000 // arm and others report none; a core still has to count for something
	}
	return mhz
}

// guessSpeed is speedOf of a machine whose processors may be unknown.
func guessSpeed(root string) int {
	b, _ := os.ReadFile(filepath.Join(root, "proc/cpuinfo"))
	_, mhz := parseCPU(string(b))
	return speedOf(root, mhz)
}

// parseCPU reads the model and the highest current frequency in MHz from /proc/cpuinfo.
func parseCPU(text string) (model string, mhz int) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "model name":
			model = value
		case "cpu MHz":
			v, err := strconv.ParseFloat(value, 64)

			// A greater number is no frequency.
			if err == nil && v < 1e6 {
				mhz = max(mhz, int(v))
			}
		}
	}
	return model, mhz
}

// maxFrequency returns the highest frequency in MHz of any core, 0 if the kernel does not report it.
func maxFrequency(root string) (mhz int) {
	const pattern = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq"
	files, _ := filepath.Glob(filepath.Join(root, pattern))
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// The kernel tells kHz.
		khz, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err == nil {
			mhz = max(mhz, khz/1000)
		}
	}
	return mhz
}

func (f *Facts) memory(root string) error {
	b, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return fmt.Errorf("fingerprinting memory: %w", err)
	}

	for line := range strings.Lines(string(b)) {
		var kib int64
		// The kernel writes KiB as kB.
		n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib)
		if n == 1 {
			f.Resources.Memory.MemoryMB = kib / 1024
			f.setAttribute("memory.totalbytes", kib*1024)
			return nil
		}
	}
	return errors.New("fingerprinting memory: /proc/meminfo has no MemTotal")
}

// disk counts the space that is free now.
func (f *Facts) disk(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("fingerprinting the disk of %s: %w", dir, err)
	}

	// Bavail leaves out the blocks that the file system reserves for root.
	free := s.Bavail * uint64(s.Bsize)
	f.Resources.Disk.DiskMB = int64(free >> 20)
	f.setAttribute("unique.storage.volume", device(dir))
	f.setAttribute("unique.storage.bytestotal", s.Blocks*uint64(s.Bsize))
	f.setAttribute("unique.storage.bytesfree", free)
	return nil
}

// device returns the source of the mount that holds a directory: usually a device, by its name in the host's
// statistics.
func device(dir string) string {
	mounts, err := mountinfo.GetMounts(mountinfo.ParentsFilter(dir))
	if err != nil || len(mounts) == 0 {
		return dir
	}

	nearest := slices.MaxFunc(mounts, func(a, b *mountinfo.Info) int {
		return len(a.Mountpoint) - len(b.Mountpoint)
	})
	return nearest.Source
}

func (f *Facts) kernel() {
	f.setAttribute("kernel.name", runtime.GOOS)
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f.setAttribute("kernel.version",
			unix.ByteSliceToString(u.Release[:]))
		f.setAttribute("kernel.arch", unix.ByteSliceToString(u.Machine[:]))
	}
	var st unix.Stat_t

	// Only the unified hierarchy has this file at its root.
	if unix.Stat("/sys/fs/cgroup/cgroup.controllers", &st) == nil {
		f.setAttribute("os.cgroups.version", "2")
	} else if unix.Stat("/sys/fs/cgroup", &st) == nil {
		f.setAttribute("os.cgroups.version", "1")
	}
}

func (f *Facts) system(root string) {
	if name, err := os.Hostname(); err == nil {
		f.Hostname = name
		f.setAttribute("unique.hostname", name)
	}

	b, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return
	}

	release := parseRelease(string(b))
	f.setAttribute("os.name", release["ID"])
	f.setAttribute("os.version", release["VERSION_ID"])
}

// parseRelease reads os-release(5).
func parseRelease(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			// A value may be quoted as in a shell.
			m[key] = strings.Trim(value, `"'`)
		}
	}
	return m
}

// network names the first address that is not of this machine alone.
func (f *Facts) network() {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		// This is also true of private addresses.
		if ok && ip.IP.IsGlobalUnicast() {
			f.setAttribute("unique.network.ip-address", ip.IP.String())
			return
		}
	}
}

// setAttribute sets an attribute to a text or a number. It omits an empty text.
func (f *Facts) setAttribute(name string, value any) {
	text := fmt.Sprint(value)
	if text != "" {
		f.Attributes[name] = text
	}
}
