package devices

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"berth/client/drivers/drivertest"
	"berth/client/drivers/protocol/device"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/capacity"
	"berth/test/kit"
)

// faulty is a manager with a plugin that has faults on demand.
func faulty(t *testing.T) (*Manager, *drivertest.Plugin) {
	t.Helper()
	dir := t.TempDir()
	p := drivertest.InstallPlugin(t, dir, drivertest.DevicePlugin, kit.PlainProgram())
	p.Set("devices", "a b")
	m, _ := managerOf(t, dir)
	device := m.sources["test-device"].(*plugin)
	device.supervisor.Pace = backoff.Backoff{Min: 300 * time.Millisecond, Max: time.Second}
	return m, p
}

// instances counts the devices.
func instances(m *Manager) int {
	n := 0
	for _, g := range m.Groups() {
		n += len(g.Instances)
	}
	return n
}

func mock(ids ...string) []*structs.AllocatedDeviceResource {
	return []*structs.AllocatedDeviceResource{{
		Vendor:    "test",
		Type:      "file",
		Name:      "mock",
		DeviceIDs: ids,
	}}
}

func TestPlugin_FollowsChanges(t *testing.T) {
	m, p := faulty(t)
	running(t, m)
	await(t, m, func() bool { return instances(m) == 2 })
	p.Set("devices", "b c d")
	await(t, m, func() bool { return instances(m) == 3 })
	r, err := m.Reserve(t.Context(), "alloc", mock("b", "d"))
	if err != nil || r.Env["TEST_DEVICES"] != "b,d" {
		t.Errorf("got %+v, %v", r, err)
	}
	p.Await("Stats", 1)
}

func TestPlugin_ThatRenamesItsGroupGivesADeviceOnce(t *testing.T) {
	m, p := faulty(t)
	m.others = func(alloc string) capacity.DeviceUse {
		if alloc == "one" {
			return nil
		}
		return capacity.DeviceUse{"test/file/mock": {"a": "one"}}
	}
	running(t, m)
	await(t, m, func() bool { return instances(m) == 2 })
	if _, err := m.Reserve(t.Context(), "one", mock("a")); err != nil {
		t.Fatal(err)
	}
	p.Set("group", "renamed")
	renamed := mock("a")
	renamed[0].Name = "renamed"
	await(t, m, func() bool { return m.Groups()[0].ID() == renamed[0].ID() })
	_, err := m.Reserve(t.Context(), "two", renamed)
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "allocation one") {
		t.Errorf("got %v", err)
	}
	renamed[0].DeviceIDs = []string{"b"}
	if _, err := m.Reserve(t.Context(), "two", renamed); err != nil {
		t.Errorf("another device: %v", err)
	}
}

// The devices of a plugin that is gone, or sends nonsense, are not offered until it is back.
func TestPlugin_WithAFaultHasNoDevices(t *testing.T) {
	for _, fault := range []string{drivertest.Close, drivertest.Huge, drivertest.Garbage, drivertest.Fail} {
		t.Run(fault, func(t *testing.T) {
			m, p := faulty(t)
			p.Set("Fingerprint", fault)
			began := time.Now()
			running(t, m)
			if err := m.WaitFirst(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := instances(m); n != 0 {
				t.Errorf("%d devices are offered", n)
			}
			p.Await("Fingerprint", 4)
			checkPace(t, p, "Fingerprint", began)
			if why := m.Faults()["test-device"]; why == "" {
				t.Error("the reason is not known")
			}
			select {
			case <-m.Changes():
			default:
				t.Error("the reason does not count as a change")
			}
			p.Set("Fingerprint", "")
			await(t, m, func() bool { return instances(m) == 2 })
			if why := m.Faults(); len(why) > 0 {
				t.Errorf("it works, but has faults: %q", why)
			}
		})
	}
}

// checkPace checks that a stream was not opened in a hot loop.
func checkPace(t *testing.T, p *drivertest.Plugin, method string, began time.Time) {
	t.Helper()
	n := p.Calls(method)
	if took := time.Since(began); n > 2+int(took/reopen.Min) {
		t.Errorf("the stream was opened %d times in %s", n, took)
	}
}

// A plugin without statistics has its devices still, and is not asked in a hot loop.
func TestPlugin_WithoutStatisticsHasItsDevices(t *testing.T) {
	for _, fault := range []string{drivertest.Close, drivertest.Huge, drivertest.Garbage, drivertest.Fail} {
		t.Run(fault, func(t *testing.T) {
			m, p := faulty(t)
			p.Set("Stats", fault)
			began := time.Now()
			running(t, m)
			p.Await("Stats", 4)
			checkPace(t, p, "Stats", began)
			await(t, m, func() bool { return instances(m) == 2 })
			p.Set("Stats", "")
			for limit := time.Now().Add(time.Minute); len(m.StatsOf(mock("a"))) != 1; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("the statistics are %+v", m.Stats())
				}
			}
		})
	}
}

// flood is a device plugin that sends a hundred fingerprints without a pause, each with other devices, and
// then none.
type flood struct {
	device.DevicePluginClient
	grpc.ServerStreamingClient[device.FingerprintResponse]
	ctx  context.Context
	sent int
}

func (f *flood) Fingerprint(
	ctx context.Context, _ *device.FingerprintRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[device.FingerprintResponse], error) {
	f.ctx = ctx
	return f, nil
}

func (f *flood) Recv() (*device.FingerprintResponse, error) {
	if f.sent == 100 {
		<-f.ctx.Done()
		return nil, f.ctx.Err()
	}
	f.sent++
	return fingerprint(func(g *device.DeviceGroup) { g.DeviceName = strconv.Itoa(f.sent) }), nil
}

// Each report of a node is a log entry of the servers, so a plugin does not set their pace.
func TestReadGroups_PassesTheNewestOfEachPauseOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		reports := 0
		last := ""
		err := new(plugin).readGroups(ctx, &flood{}, func(groups []*structs.NodeDeviceResource) {
			reports++
			last = groups[0].Name
		})
		if err == nil || reports > 2 || last != "100" {
			t.Errorf("%d reports, the last one is %s: %v", reports, last, err)
		}
	})
}

func TestReserve_OfAFaultyPluginFails(t *testing.T) {
	for _, fault := range []string{
		drivertest.Hang, drivertest.Exit, drivertest.Huge, drivertest.Garbage, drivertest.Fail,
	} {
		t.Run(fault, func(t *testing.T) {
			m, p := faulty(t)
			running(t, m)
			await(t, m, func() bool { return instances(m) == 2 })
			p.Set("Reserve", fault)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := m.Reserve(ctx, "alloc", mock("a"))
			if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "test/file/mock") {
				t.Errorf("got %v", err)
			}
			p.Set("Reserve", "")
			for limit := time.Now().Add(2 * time.Minute); err != nil; time.Sleep(10 * time.Millisecond) {
				_, err = m.Reserve(t.Context(), "alloc", mock("a"))
				if time.Now().After(limit) {
					t.Fatalf("the plugin is not used again: %v", err)
				}
			}
		})
	}
}

func TestRun_EndsWhateverHangs(t *testing.T) {
	for _, method := range []string{"Fingerprint", "Stats", "StreamStdio", "Shutdown"} {
		t.Run(method, func(t *testing.T) {
			m, p := faulty(t)
			p.Set(method, drivertest.Hang)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				m.Run(ctx)
			}()
			p.Await("Fingerprint", 1)
			began := time.Now()
			cancel()
			<-done
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}
