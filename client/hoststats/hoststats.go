// Package hoststats measures the usage of a machine: processors, memory and file systems. It reads /proc and
// the kernel, keeps nothing between two measurements and starts no goroutine.
package hoststats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/structs"
)

// Sample is the time over which the use of processors is measured.
const Sample = 200 * time.Millisecond

// maxDisks bounds the file systems in one answer: a node may have mounted thousands of volumes.
const maxDisks = 64

// Host is the machine to measure.
type Host struct {
	Dir string // on the file system that allocations use
	MHz int64  // of all processors together
}

// Measure takes Sample, or less if ctx ends. A file system that does not answer is left out.
func (h Host) Measure(ctx context.Context) (*structs.HostStats, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, structs.Internalf("measuring the host: %w", err)
	}
	s := &structs.HostStats{}
	err = h.processors(ctx, proc, s)
	if err != nil {
		return nil, structs.Internalf("measuring the processors: %w", err)
	}
	s.Memory, err = memory(proc)
	if err != nil {
		return nil, structs.Internalf("measuring the memory: %w", err)
	}
	s.DiskStats, err = disks()
	if err != nil {
		return nil, structs.Internalf("reading the mount table: %w", err)
	}
	s.AllocDirStats = diskAt("", h.Dir)
	s.Timestamp = time.Now().UnixNano()
	return s, nil
}

// processors compares two readings of /proc/stat.
func (h Host) processors(ctx context.Context, proc procfs.FS, s *structs.HostStats) error {
	before, err := proc.Stat()
	if err != nil {
		return err
	}
	if !backoff.Sleep(ctx, Sample) {
		return ctx.Err()
	}
	after, err := proc.Stat()
	if err != nil {
		return err
	}
	uptime := time.Now().Unix() - int64(after.BootTime)
	s.Uptime = uint64(max(uptime, 0))
	s.CPU = shares(before.CPU, after.CPU)
	cores := float64(len(s.CPU))
	for _, c := range s.CPU {
		s.CPUTicksConsumed += c.Total / 100 * float64(h.MHz) / cores
	}
	return nil
}

// shares returns the parts of the time between two readings that each processor spent, in percent.
func shares(before, after map[int64]procfs.CPUStat) []*structs.HostCPUStats {
	all := []*structs.HostCPUStats{}
	for _, n := range slices.Sorted(maps.Keys(after)) {
		b := before[n]
		a := after[n]
		user := spent(a.User+a.Nice, b.User+b.Nice)
		system := spent(a.System+a.IRQ+a.SoftIRQ+a.Steal,
			b.System+b.IRQ+b.SoftIRQ+b.Steal)
		idle := spent(a.Idle+a.Iowait, b.Idle+b.Iowait)
		c := &structs.HostCPUStats{CPU: fmt.Sprintf("cpu%d", n), Idle: 100}
		if whole := user + system + idle; whole > 0 {
			c.User = 100 * user / whole
			c.System = 100 * system / whole
			c.Idle = 100 * idle / whole
			c.Total = c.User + c.System
		}
		all = append(all, c)
	}
	return all
}

// spent returns the time between two readings, at least 0: the kernel may decrease the wait for I/O, and sums
// of seconds are rounded.
func spent(after, before float64) float64 {
	return max(after-before, 0)
}

func memory(proc procfs.FS) (*structs.HostMemoryStats, error) {
	m, err := proc.Meminfo()
	if err != nil {
		return nil, err
	}
	bytes := func(p *uint64) uint64 {
		if p == nil {
			return 0
		}
		return *p
	}
	s := &structs.HostMemoryStats{
		Total:     bytes(m.MemTotalBytes),
		Available: bytes(m.MemAvailableBytes),
		Free:      bytes(m.MemFreeBytes),
	}
	s.Used = s.Total - min(s.Available, s.Total)
	return s, nil
}

// isDisk reports whether a file system is on a device of the machine. One that a process serves (FUSE) is
// not: if the process hangs, the kernel never answers.
func isDisk(m *mountinfo.Info) bool {
	return strings.HasPrefix(m.Source, "/dev/") &&
		!strings.HasPrefix(m.Source, "/dev/loop") &&
		!strings.HasPrefix(m.FSType, "fuse")
}

// disks returns the file systems on devices, each once, at its shortest mount point.
func disks() ([]*structs.HostDiskStats, error) {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !isDisk(m), false
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(mounts, func(a, b *mountinfo.Info) int {
		return len(a.Mountpoint) - len(b.Mountpoint)
	})
	seen := map[string]bool{}
	all := []*structs.HostDiskStats{}
	for _, m := range mounts {
		if seen[m.Source] || len(all) == maxDisks {
			continue
		}
		seen[m.Source] = true
		if d := diskAt(m.Source, m.Mountpoint); d != nil {
			all = append(all, d)
		}
	}
	return all, nil
}

// diskAt reads the statistics of a path's file system, and returns nil if it does not answer.
func diskAt(device, path string) *structs.HostDiskStats {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return nil
	}
	block := uint64(st.Frsize)
	d := &structs.HostDiskStats{
		Device:     device,
		Mountpoint: path,
		Size:       st.Blocks * block,
		Available:  st.Bavail * block,
		Used:       (st.Blocks - st.Bfree) * block,
	}
	d.UsedPercent = percent(d.Used, d.Used+d.Available)
	d.InodesUsedPercent = percent(st.Files-st.Ffree, st.Files)
	return d
}

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
