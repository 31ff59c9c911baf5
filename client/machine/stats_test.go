package machine

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/prometheus/procfs"
	"github.com/shirou/gopsutil/v4/cpu"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/structs/nodecalls"
	"berth/test/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMeasure_DescribesThisMachine(t *testing.T) {
	s, err := Host{Dir: t.TempDir(), MHz: 4000}.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	online, err := proc.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.CPU) != len(online.CPU) || s.CPU[0].CPU != "cpu0" {
		t.Errorf("%d processors, want %d", len(s.CPU), len(online.CPU))
	}
	for _, c := range s.CPU {
		if sum := c.User + c.System + c.Idle; math.Abs(sum-100) > 0.001 {
			t.Errorf("%s: the shares add up to %v", c.CPU, sum)
		}
	}
	if s.CPUTicksConsumed < 0 || s.CPUTicksConsumed > 4000.001 {
		t.Errorf("CPUTicksConsumed is %v of 4000", s.CPUTicksConsumed)
	}
	m := s.Memory
	if m.Total == 0 || m.Used == 0 ||
		m.Used+m.Available != m.Total || m.Free > m.Total {
		t.Errorf("memory is %+v", m)
	}
	if s.AllocDirStats == nil {
		t.Fatal("the allocations' file system is not measured")
	}
	checkUsage(t, s.AllocDirStats)
	root, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter("/"))
	if err != nil {
		t.Fatal(err)
	}
	if len(root) == 1 && isDisk(root[0]) {
		if len(s.DiskStats) == 0 || s.DiskStats[0].Mountpoint != "/" || s.DiskStats[0].Device != root[0].Source {
			t.Fatalf("the disks are %+v, without that of /", s.DiskStats)
		}
		checkUsage(t, s.DiskStats[0])
	}
	if age := time.Now().UnixNano() - s.Timestamp; age < 0 || age > int64(time.Minute) {
		t.Errorf("the timestamp is %d", s.Timestamp)
	}
	if boot := time.Now().Unix() - int64(online.BootTime); math.Abs(float64(s.Uptime)-float64(boot)) > 60 {
		t.Errorf("the machine is up for %d s, not %d s", boot, s.Uptime)
	}
}

// checkUsage compares the usage of a file system with the kernel's answer. Others may write to it meanwhile.
func checkUsage(t *testing.T, d *nodecalls.HostDiskStats) {
	t.Helper()
	var now unix.Statfs_t
	if err := unix.Statfs(d.Mountpoint, &now); err != nil {
		t.Fatal(err)
	}
	inodes := 0.0
	if now.Files > 0 {
		inodes = 100 * float64(now.Files-now.Ffree) / float64(now.Files)
	}
	if d.Size != now.Blocks*uint64(now.Bsize) || d.Used+d.Available > d.Size ||
		d.UsedPercent < 0 || d.UsedPercent > 100 ||
		math.Abs(d.InodesUsedPercent-inodes) > 5 {
		t.Errorf("got %+v, the kernel says %+v", d, now)
	}
}

func TestMeasure_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Host{Dir: os.TempDir()}).Measure(ctx); err == nil {
		t.Error("Measure succeeded although its context has ended")
	}
}

func TestShares_AreOfTheTimeBetweenTwoReadings(t *testing.T) {
	before := []cpu.TimesStat{{CPU: "cpu0", User: 10, System: 20, Idle: 70}}
	after := []cpu.TimesStat{
		{CPU: "cpu0", User: 11, Nice: 1, System: 20.5, Steal: 0.5, Idle: 76, Iowait: 1},
		{CPU: "cpu1", User: 1, Idle: 3}, // it has just come
	}
	both := shares(before, after)
	if c := both[0]; c.User != 20 || c.System != 10 || c.Idle != 70 || c.Total != 30 {
		t.Errorf("%+v", c)
	}
	if c := both[1]; c.CPU != "cpu1" || c.Total != 25 {
		t.Errorf("a new processor: got %+v", c)
	}
	back := []cpu.TimesStat{{CPU: "cpu0", User: 10, System: 19.9, Idle: 71}}
	c := shares(before, back)[0]
	if c.User != 0 || c.System != 0 || c.Idle != 100 || c.Total != 0 {
		t.Errorf("decreased counters: got %+v", c)
	}
	if c := shares(after, after)[0]; c.Idle != 100 || c.Total != 0 {
		t.Errorf("equal readings: got %+v", c)
	}
}

// mounts reads lines "SOURCE TYPE PATH".
func mounts(lines ...string) (all []*mountinfo.Info) {
	for _, line := range lines {
		f := strings.Fields(line)
		all = append(all, &mountinfo.Info{Source: f[0], FSType: f[1], Mountpoint: f[2]})
	}
	return all
}

func TestChooseDisks_LeavesOutWhatMayHang(t *testing.T) {
	for name, c := range map[string]struct {
		mounts []*mountinfo.Info
		want   []string
	}{
		"each device once": {
			mounts("/dev/vda1 ext4 /var/lib/x", "/dev/vda1 ext4 /", "/dev/mapper/data xfs /data"),
			[]string{"/", "/data"},
		},
		"no device": {
			mounts("tmpfs tmpfs /tmp", "overlay overlay /", "/dev/loop0 ext4 /loop", "10.0.0.1:/export nfs4 /net"),
			nil,
		},
		"served by a process": {
			mounts("/dev/vda1 ext4 /", "/dev/sdb1 fuseblk /usb", "/dev/fuse fuse.x /f"),
			[]string{"/"},
		},
		"behind a server": {
			mounts("/dev/vda1 ext4 /", "host: fuse.sshfs /a", "/dev/sdb1 ext4 /a/b", "/dev/sdc1 ext4 /ab"),
			[]string{"/", "/ab"},
		},
		"covered by a server": {
			mounts("/dev/vda1 ext4 /", "/dev/sdb1 ext4 /a", "host:/a nfs4 /a"),
			[]string{"/"},
		},
		"a root that a server has": {
			mounts("root virtiofs /", "/dev/sdb1 ext4 /data"),
			[]string{"/data"},
		},
	} {
		var got []string
		for _, m := range chooseDisks(c.mounts) {
			got = append(got, m.Mountpoint)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	var many []*mountinfo.Info
	for i := range maxDisks + 1 {
		many = append(many, mounts(fmt.Sprintf("/dev/sd%d ext4 /%d", i, i))...)
	}
	if got := chooseDisks(many); len(got) != maxDisks {
		t.Errorf("%d of %d disks", len(got), len(many))
	}
}

// TestMeasure_DoesNotWaitForAServerThatHangs mounts a file system of a process that answers nothing.
func TestMeasure_DoesNotWaitForAServerThatHangs(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "no right to mount: needs root")
	}
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		kit.SkipLacking(t, "no FUSE: "+err.Error())
	}
	dir := t.TempDir()
	hangUp := sync.OnceFunc(func() { _ = unix.Close(fuse) }) // the kernel then fails each access
	t.Cleanup(func() {
		hangUp()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)
	err = unix.Mount("/dev/berth-test", dir, "fuse", 0, options)
	if err != nil {
		t.Fatal(err)
	}
	measured := make(chan error, 1)
	go func() {
		_, err := Host{Dir: os.TempDir()}.Measure(t.Context())
		measured <- err
	}()
	select {
	case err = <-measured:
	case <-time.After(time.Minute):
		hangUp()
		<-measured
		t.Fatal("Measure waits for a file system that does not answer")
	}
	if err != nil {
		t.Error(err)
	}
}
