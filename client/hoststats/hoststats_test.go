package hoststats

import (
	"context"
	"math"
	"os"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/prometheus/procfs"
	"go.uber.org/goleak"
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
	d := s.AllocDirStats
	if d == nil || d.Size == 0 || d.Used > d.Size ||
		d.Mountpoint == "" || d.UsedPercent > 100 {
		t.Errorf("the allocations' file system is %+v", d)
	}
	if age := time.Now().UnixNano() - s.Timestamp; age < 0 || age > int64(time.Minute) {
		t.Errorf("the timestamp is %d", s.Timestamp)
	}
	if s.Uptime == 0 {
		t.Error("got an uptime of 0")
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
	before := map[int64]procfs.CPUStat{0: {User: 10, System: 20, Idle: 70}}
	after := map[int64]procfs.CPUStat{0: {User: 11, Nice: 1, System: 20.5, Steal: 0.5, Idle: 76, Iowait: 1}}
	c := shares(before, after)[0]
	if c.User != 20 || c.System != 10 || c.Idle != 70 || c.Total != 30 {
		t.Errorf("%+v", c)
	}
	back := map[int64]procfs.CPUStat{0: {User: 10, System: 19.9, Idle: 71}}
	c = shares(before, back)[0]
	if c.User != 0 || c.System != 0 || c.Idle != 100 || c.Total != 0 {
		t.Errorf("decreased counters: got %+v", c)
	}
	if c := shares(after, after)[0]; c.Idle != 100 || c.Total != 0 {
		t.Errorf("equal readings: got %+v", c)
	}
}

func TestIsDisk_LeavesOutWhatMayHang(t *testing.T) {
	for _, c := range []struct {
		source, fstype string
		want           bool
	}{
		{"/dev/vda1", "ext4", true},
		{"/dev/mapper/root", "xfs", true},
		{"/dev/loop0", "ext4", false},
		{"/dev/fuse", "fuse", false},
		{"/dev/sdb1", "fuseblk", false},
		{"10.0.0.1:/export", "nfs4", false},
		{"tmpfs", "tmpfs", false},
	} {
		if got := isDisk(&mountinfo.Info{Source: c.source, FSType: c.fstype}); got != c.want {
			t.Errorf("%s of type %s: got %t, want %t", c.source, c.fstype, got, c.want)
		}
	}
}
