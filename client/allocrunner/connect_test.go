package allocrunner

import (
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/consul"
	"berth/consul/mesh"
	"berth/structs"
)

// fakeConsul has the names of the services of one allocation.
type fakeConsul struct {
	mu    sync.Mutex
	names []string
}

func (c *fakeConsul) Put(_ string, services []*consul.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = nil
	for _, s := range services {
		c.names = append(c.names, s.Name)
	}
}

func (*fakeConsul) Beat(string, string, string)            {}
func (*fakeConsul) Check(string) (consul.CheckState, bool) { return consul.CheckState{}, false }
func (*fakeConsul) Follow() func()                         { return func() {} }

func (c *fakeConsul) check(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.names, want) {
		t.Errorf("%s: Consul has %q, want %q", when, c.names, want)
	}
}

// meshedAlloc has the service web with its task, its proxy and an upstream.
func meshedAlloc() *structs.Allocation {
	a := testAlloc("web", "connect-proxy-web")
	a.Ports = []structs.AllocatedPort{{Label: "connect-proxy-web", Value: 20001, To: 20001, HostIP: "10.0.0.1"}}
	g := a.Job.TaskGroups[0]
	g.Services = []*structs.Service{{
		Name:      "web",
		PortLabel: "8080",
		Provider:  structs.ServiceProviderConsul,
		Connect: &structs.Connect{SidecarService: &structs.SidecarService{Proxy: &structs.ConnectProxy{
			Upstreams: []*structs.ConnectUpstream{{DestinationName: "count-api", LocalBindPort: 9191}},
		}}},
	}}
	proxy := g.Tasks[1]
	proxy.Kind = structs.NewTaskKind(structs.KindConnectProxy, "web")
	proxy.Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePrestart, Sidecar: true}
	proxy.ShutdownDelay = 5 * time.Second
	return a
}

// The service is in Consul before its proxy starts, survives a restart of the agent and of the task, and
// leaves Consul before the proxy ends.
func TestConnect_RegistersAServiceForTheLifeOfItsProxy(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		c := &fakeConsul{}
		fx.machine.Before = func(point string) error {
			if point == "start alloc1/connect-proxy-web" {
				c.mu.Lock()
				defer c.mu.Unlock()
				fx.note("proxy starts with " + c.names[0])
			}
			return nil
		}
		a := fx.agent()
		a.deps.Consul = c
		a.new(meshedAlloc())
		fx.wantRunning(t, "web", "connect-proxy-web")
		if !slices.Contains(fx.logged(), "proxy starts with web") {
			t.Errorf("the log is %q", fx.logged())
		}
		c.check(t, "while it runs", "web")
		a.stop()
		c.check(t, "after the end of the agent", "web")

		c = &fakeConsul{}
		a = fx.agent()
		a.deps.Consul = c
		a.allocs[0].block = true
		a.restore()
		c.check(t, "before the hooks are up", "web")
		a.stop()
		a = fx.agent()
		a.deps.Consul = c
		r := a.restore()[0]
		close(a.contacted)
		defer a.stop()
		synctest.Wait()
		fx.machine.Exit("alloc1/web", exitResult(1))
		c.check(t, "between two processes of the task", "web")
		time.Sleep(6 * time.Second)
		fx.wantRunning(t, "web", "connect-proxy-web")
		if err := r.RestartAll(); err != nil {
			t.Fatal(err)
		}
		c.check(t, "in a restart of all tasks")
		time.Sleep(10 * time.Second)
		fx.wantRunning(t, "web", "connect-proxy-web")
		c.check(t, "in the next round", "web")
		r.Stop("enough")
		c.check(t, "at the end")
		fx.wantRunning(t, "connect-proxy-web")
		time.Sleep(4 * time.Second)
		fx.wantRunning(t, "connect-proxy-web")
		time.Sleep(2 * time.Second)
		fx.wantRunning(t)
	})
}

func TestConnect_GivesTheProxyItsWork(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		a.deps.Consul = &fakeConsul{}
		defer a.stop()
		a.new(meshedAlloc())
		fx.wantRunning(t, "web", "connect-proxy-web")
		want := &mesh.Proxy{
			Service:   "web",
			Listen:    "0.0.0.0:20001",
			Local:     "127.0.0.1:8080",
			Upstreams: []mesh.ProxyUpstream{{Name: "count-api", Bind: "127.0.0.1:9191"}},
		}
		if got := fx.machine.Task("alloc1/connect-proxy-web").Config.Proxy; !reflect.DeepEqual(got, want) {
			t.Errorf("the proxy has %+v", got)
		}
		config := fx.machine.Task("alloc1/web").Config
		if config.Proxy != nil {
			t.Errorf("another task is a proxy: %+v", config.Proxy)
		}
		for name, want := range map[string]string{
			"NOMAD_UPSTREAM_ADDR_count_api": "127.0.0.1:9191",
			"BERTH_UPSTREAM_ADDR_count_api": "127.0.0.1:9191",
			"NOMAD_UPSTREAM_IP_count_api":   "127.0.0.1",
			"NOMAD_UPSTREAM_PORT_count_api": "9191",
		} {
			if got := config.Env[name]; got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

func TestConnect_FailsAProxyWithoutItsService(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := meshedAlloc()
		alloc.Job.TaskGroups[0].Services[0].Name = "other"
		a.new(alloc)
		synctest.Wait()
		state := a.last().TaskStates["connect-proxy-web"]
		if !state.Failed || !slices.Contains(eventsOf(state), structs.TaskEventSetupFailure) {
			t.Errorf("the proxy is %+v with %q", state, eventsOf(state))
		}
	})
}
