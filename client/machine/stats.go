package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/nodecalls"
)

// StatsSample is the time over which the use of processors is measured.
const StatsSample = 200 * time.Millisecond

// maxDisks bounds the file systems in one answer: a node may have mounted thousands of volumes.
const maxDisks = 64

// Host is the machine to measure.
type Host struct {
	Dir string // on the file system that allocations use
	MHz int64  // of all processors together
}

// Measure takes StatsSample, or less if ctx ends. A file system that may not answer is left out.
func (h Host) Measure(ctx context.Context) (*nodecalls.HostStats, error) {
	meter, err := NewMeter(ctx, h)
	if err != nil {
		return nil, err
	}
	if !backoff.Sleep(ctx, StatsSample) {
		return nil, structs.Internalf("measuring the processors: %w", ctx.Err())
	}
	return meter.Measure(ctx)
}

// Meter measures a machine again and again. The use of processors is that since the former measurement.
type Meter struct {
	host   Host
	before []cpu.TimesStat
}

// NewMeter begins the first measurement.
func NewMeter(ctx context.Context, h Host) (*Meter, error) {
	before, err := times(ctx)
	return &Meter{h, before}, err
}

// Measure ends a measurement and begins the next one. A file system that may not answer is left out.
func (m *Meter) Measure(ctx context.Context) (*nodecalls.HostStats, error) {
	after, err := times(ctx)
	if err != nil {
		return nil, err
	}
	s := &nodecalls.HostStats{}
	m.host.processors(s, m.before, after)
	m.before = after
	return s, m.host.measureRest(ctx, s)
}

// measureRest adds all but the processors.
func (h Host) measureRest(ctx context.Context, s *nodecalls.HostStats) error {

	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return structs.Internalf("measuring the memory: %w", err)
	}

	s.Memory = &nodecalls.HostMemoryStats{
		Total:     m.Total,
		Available: m.Available,
		Used:      m.Total - min(m.Available, m.Total),
		Free:      m.Free,
	}

	s.Uptime, err = host.UptimeWithContext(ctx)
	if err != nil {
		return structs.Internalf("reading the uptime: %w", err)
	}

	s.DiskStats, err = Disks(ctx)
	if err != nil {
		return err
	}
	s.AllocDirStats = diskAt(ctx, "", h.Dir)
	s.Timestamp = time.Now().UnixNano()
	return nil
}

// Disks returns the use of the mounted file systems that have a device. One that may not answer is left out.
func Disks(ctx context.Context) ([]*nodecalls.HostDiskStats, error) {
	// The library would read the mount table of pid 1, which may be in another mount namespace.
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, structs.Internalf("reading the mount table: %w", err)
	}
	return disks(ctx, mounts), nil
}

// times reads the times of all processors.
func times(ctx context.Context) ([]cpu.TimesStat, error) {
	now, err := cpu.TimesWithContext(ctx, true)
	if err == nil && len(now) == 0 { // the library's answer if it cannot read the times
		err = errors.New("the kernel shows none")
	}
	if err != nil {
		return nil, structs.Internalf("measuring the processors: %w", err)
	}
	return now, nil
}

// processors compares two readings of the times of processors.
func (h Host) processors(s *nodecalls.HostStats, before, after []cpu.TimesStat) {
	s.CPU = shares(before, after)
	// h.MHz is for all cores, and c.Total is a part of one.
	cores := float64(len(s.CPU))
	for _, c := range s.CPU {
		s.CPUTicksConsumed += c.Total / 100 * float64(h.MHz) / cores
	}
}

// shares returns the parts of the time between two readings that each processor spent, in percent.
func shares(before, after []cpu.TimesStat) []*nodecalls.HostCPUStats {
	// Processors may come and go between the readings, so their names are compared.
	old := map[string]cpu.TimesStat{}
	for _, b := range before {
		old[b.CPU] = b
	}

	all := []*nodecalls.HostCPUStats{}
	for _, a := range after {
		// The times of a processor that has come in between count from zero.
		b := old[a.CPU]
		user := spent(a.User+a.Nice, b.User+b.Nice)
		// Tasks cannot use stolen time, so it counts as used.
		system := spent(a.System+a.Irq+a.Softirq+a.Steal,
			b.System+b.Irq+b.Softirq+b.Steal)
		idle := spent(a.Idle+a.Iowait, b.Idle+b.Iowait)
		// Without a tick between the readings, nothing was used.
		c := &nodecalls.HostCPUStats{CPU: a.CPU, Idle: 100}
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

// mayHang reports whether a process or another machine serves a file system. If the server hangs, so does
// each access.
func mayHang(fstype string) bool {
	return slices.ContainsFunc(
		[]string{"fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre", "virtiofs"},
		func(kind string) bool { return strings.HasPrefix(fstype, kind) })
}

// isDisk reports whether a file system is on a device of the machine.
func isDisk(m *mountinfo.Info) bool {
	return strings.HasPrefix(m.Source, "/dev/") &&
		!strings.HasPrefix(m.Source, "/dev/loop") &&
		!mayHang(m.FSType)
}

// chooseDisks returns the mounts of file systems on devices, each device once, at its shortest mount point. A
// path that leads through a file system that may hang is left out.
func chooseDisks(mounts []*mountinfo.Info) []*mountinfo.Info {
	var slow []string
	for _, m := range mounts {
		if mayHang(m.FSType) && m.Mountpoint != "/" { // the agent itself needs the root
			// The slash keeps /mnt from covering /mnt2.
			slow = append(slow, m.Mountpoint+"/")
		}
	}

	behind := func(path string) bool {
		return slices.ContainsFunc(slow, func(dir string) bool {
			return strings.HasPrefix(path+"/", dir)
		})
	}

	// The shortest mount point of a device stands for it.
	sorted := slices.SortedStableFunc(slices.Values(mounts), func(a, b *mountinfo.Info) int {
		return len(a.Mountpoint) - len(b.Mountpoint)
	})
	var chosen []*mountinfo.Info
	seen := map[string]bool{}
	for _, m := range sorted {
		if len(chosen) < maxDisks && isDisk(m) && !seen[m.Source] && !behind(m.Mountpoint) {
			seen[m.Source] = true
			chosen = append(chosen, m)
		}
	}

	return chosen
}

// disks measures the file systems on devices.
func disks(ctx context.Context, mounts []*mountinfo.Info) []*nodecalls.HostDiskStats {
	all := []*nodecalls.HostDiskStats{}
	for _, m := range chooseDisks(mounts) {
		if d := diskAt(ctx, m.Source, m.Mountpoint); d != nil {
			all = append(all, d)
		}
	}
	return all
}

// diskAt reads the statistics of a path's file system, nil if it has none.
func diskAt(ctx context.Context, device, path string) *nodecalls.HostDiskStats {
	u, err := disk.UsageWithContext(ctx, path)
	if err != nil {
		return nil
	}
	return &nodecalls.HostDiskStats{
		Device:            device,
		Mountpoint:        path,
		Size:              u.Total,
		Used:              u.Used,
		Available:         u.Free,
		UsedPercent:       u.UsedPercent,
		InodesUsedPercent: u.InodesUsedPercent,
	}
}
