package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/telemetry"
	"berth/structs/storage"
)

// plugin counts the calls of its volumes.
type plugin struct {
	sync.Mutex
	calls    map[string]int
	inFlight int
	most     int
	twice    bool // a volume had two calls in flight
	hang     map[string]bool
	busy     map[string]bool
	err      error
}

// volume is a volume of the plugin.
func (p *plugin) volume(id string) PolledVolume {
	return PolledVolume{
		Key: storage.UsageKey{Namespace: "default", VolumeID: id},
		Ask: func(ctx context.Context) (*storage.VolumeUsage, error) { return p.ask(ctx, id) },
	}
}

func (p *plugin) ask(ctx context.Context, id string) (*storage.VolumeUsage, error) {
	p.Lock()
	p.calls[id]++
	p.inFlight++
	p.most = max(p.most, p.inFlight)
	p.twice = p.twice || p.busy[id]
	p.busy[id] = true
	hangs := p.hang[id]
	p.Unlock()
	if hangs {
		<-ctx.Done()
	} else {
		time.Sleep(time.Second)
	}
	p.Lock()
	defer p.Unlock()
	p.inFlight--
	p.busy[id] = false
	if hangs {
		return nil, ctx.Err()
	}
	n := int64(p.calls[id])
	return &storage.VolumeUsage{
		Bytes:     &storage.UsageAmount{Total: 100, Used: n, Available: 100 - n},
		Condition: &storage.VolumeCondition{Abnormal: true, Message: "ill"},
	}, p.err
}

// pollerFixture is a poller with the volumes of a plugin, in virtual time.
type pollerFixture struct {
	*Poller
	*plugin
	volumes  []PolledVolume
	storages []Storage
}

func runPoller(t *testing.T, count int, test func(f *pollerFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &plugin{calls: map[string]int{}, hang: map[string]bool{}, busy: map[string]bool{}}
		f := &pollerFixture{plugin: p}
		for i := range count {
			f.volumes = append(f.volumes, f.volume(fmt.Sprint(i)))
		}
		f.Poller = NewPoller(PollerConfig{
			NodeID: "n1",
			List: func() ([]PolledVolume, error) {
				f.plugin.Lock()
				defer f.plugin.Unlock()
				return f.volumes, nil
			},
			Storages: func() []Storage {
				f.plugin.Lock()
				defer f.plugin.Unlock()
				return f.storages
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			f.Run(ctx)
			close(ended)
		}()
		test(f)
		cancel()
		<-ended
	})
}

func (f *pollerFixture) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// setHang makes the calls of the first volume end only with their context.
func (f *pollerFixture) setHang(hang bool) {
	f.plugin.Lock()
	defer f.plugin.Unlock()
	f.hang["0"] = hang
}

func (f *pollerFixture) calledTimes(id string) int {
	f.plugin.Lock()
	defer f.plugin.Unlock()
	return f.calls[id]
}

func TestPoller_MeasuresEachVolumeOnceInAnInterval(t *testing.T) {
	runPoller(t, 20, func(f *pollerFixture) {
		f.pass(10 * time.Minute)
		for i := range 20 {
			// Nine to eleven tenths of a minute, and the time to the next look at the list.
			if n := f.calledTimes(fmt.Sprint(i)); n < 8 || n > 11 {
				t.Errorf("volume %d was measured %d times in 10 minutes", i, n)
			}
		}
		got := f.Of([]storage.UsageKey{f.volumes[3].Key, {VolumeID: "other"}})
		if len(got) != 1 || got[0].NodeID != "n1" || got[0].VolumeID != "3" || got[0].Bytes.Total != 100 ||
			got[0].Time == 0 || !got[0].Condition.Abnormal || got[0].Condition.Message != "ill" {
			t.Errorf("%+v", got)
		}
		if len(f.Of(nil)) != 20 {
			t.Errorf("%d volumes", len(f.Of(nil)))
		}
	})
}

func TestPoller_BoundsTheCallsInFlight(t *testing.T) {
	runPoller(t, 200, func(f *pollerFixture) {
		f.pass(5 * time.Minute)
		f.plugin.Lock()
		defer f.plugin.Unlock()
		if f.most != MaxPollCalls || f.twice {
			t.Errorf("%d calls in flight, two for a volume: %v", f.most, f.twice)
		}
	})
}

func TestPoller_AsksAVolumeThatHangsEverMoreSeldom(t *testing.T) {
	runPoller(t, 2, func(f *pollerFixture) {
		f.setHang(true)
		f.pass(time.Hour)
		hung := f.calledTimes("0")
		if hung < 5 || hung > 12 || f.calledTimes("1") < 50 {
			t.Errorf("in an hour %d calls, and %d of the healthy volume", hung, f.calledTimes("1"))
		}
		u := f.Of([]storage.UsageKey{f.volumes[0].Key})[0]
		if u.Error == "" || u.Time != 0 || u.Bytes != nil {
			t.Errorf("%+v", u)
		}

		f.setHang(false)
		f.pass(10 * time.Minute)
		before := f.calledTimes("0")
		f.pass(10 * time.Minute)
		if u := f.Of([]storage.UsageKey{f.volumes[0].Key})[0]; u.Error != "" || f.calledTimes("0")-before < 8 {
			t.Errorf("after its repair %d calls, %+v", f.calledTimes("0")-before, u)
		}
	})
}

func TestPoller_KeepsTheLastAmountsAfterAnError(t *testing.T) {
	runPoller(t, 1, func(f *pollerFixture) {
		f.pass(2 * time.Minute)
		f.plugin.Lock()
		f.err = errors.New("the plugin is ill")
		f.plugin.Unlock()
		f.pass(2 * time.Minute)
		u := f.Of(nil)[0]
		if u.Error != "the plugin is ill" || u.Bytes == nil || u.Time == 0 {
			t.Errorf("%+v", u)
		}
	})
}

func TestPoller_ForgetsVolumesThatAreGone(t *testing.T) {
	runPoller(t, 2, func(f *pollerFixture) {
		f.pass(2 * time.Minute)
		f.plugin.Lock()
		f.volumes = f.volumes[1:]
		f.plugin.Unlock()
		f.pass(time.Minute)
		if got := f.Of(nil); len(got) != 1 || got[0].VolumeID != "1" {
			t.Errorf("%+v", got)
		}
	})
}

// A device whose plugin reports nothing has no file system to ask.
func TestPoller_LeavesDevicesWithoutAReportAlone(t *testing.T) {
	runPoller(t, 0, func(f *pollerFixture) {
		f.plugin.Lock()
		f.volumes = []PolledVolume{{Key: storage.UsageKey{VolumeID: "disk"}, Device: true}}
		f.plugin.Unlock()
		f.pass(5 * time.Minute)
		if u := f.Of(nil)[0]; u.Time != 0 || u.Error != "" {
			t.Errorf("%+v", u)
		}
	})
}

func TestPoller_ReportsTheNamesOfTheKubelet(t *testing.T) {
	p := NewPoller(PollerConfig{})
	p.volumes[storage.UsageKey{Namespace: "a", VolumeID: "v"}] = &pollState{usage: storage.VolumeUsage{
		Namespace: "a",
		VolumeID:  "v",
		Bytes:     &storage.UsageAmount{Total: 10, Used: 7, Available: 2},
		Inodes:    &storage.UsageAmount{Total: 5, Used: 1, Available: 4},
		Condition: &storage.VolumeCondition{Abnormal: true},
	}}
	want := map[string]float64{
		"kubelet_volume_stats_capacity_bytes":         10,
		"kubelet_volume_stats_used_bytes":             7,
		"kubelet_volume_stats_available_bytes":        2,
		"kubelet_volume_stats_inodes":                 5,
		"kubelet_volume_stats_inodes_used":            1,
		"kubelet_volume_stats_inodes_free":            4,
		"kubelet_volume_stats_health_status_abnormal": 1,
	}
	got := map[string]float64{}
	p.Gauges(func(g telemetry.Gauge) {
		got[g.Name] = g.Value
		if g.Labels["namespace"] != "a" || g.Labels["persistentvolumeclaim"] != "v" || len(g.Labels) != 2 {
			t.Errorf("%s has the labels %v", g.Name, g.Labels)
		}
	})
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: got %v, want %v", name, got[name], value)
		}
	}
}
