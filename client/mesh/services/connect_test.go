package services

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/consul"
	"berth/structs"
)

// meshed is a service with a proxy.
func meshed(name string) *structs.Service {
	s := inConsul(name)
	s.Connect = &structs.Connect{SidecarService: &structs.SidecarService{Port: "http"}}
	return s
}

func TestSet_OffersServicesWithProxiesBeforeTheirTasks(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		native := inConsul("native")
		native.Connect = &structs.Connect{Native: true}
		gateway := inConsul("in")
		gateway.Connect = &structs.Connect{Gateway: &structs.Gateway{Mesh: &structs.GatewayMesh{}}}
		g.Services = []*structs.Service{meshed("web"), native, gateway}
	})
	c := newFakeConsul()
	f.Consul = c
	check := func(when string, want ...string) {
		t.Helper()
		if got := c.names(); !slices.Equal(got, want) {
			t.Errorf("%s: Consul has %q, want %q", when, got, want)
		}
	}
	f.Open("one")
	check("before the tasks", "web", "in")
	side := c.services[0].Connect.SidecarService
	if side.Port != 20000 || side.Proxy.LocalServicePort != 20000 || c.services[1].Proxy == nil {
		t.Errorf("got %+v and %+v", side, c.services[1])
	}
	f.begin("a", "b")
	check("with the tasks", "web", "native", "in")
	f.Withdraw("a")
	f.Stop("a")
	f.Withdraw("b")
	f.Stop("b")
	check("between two processes", "web", "in")
	f.Open("two") // of the next round
	f.Shut("one")
	check("after the end of a former round", "web", "in")
	f.Shut("two")
	check("at the end")
}

// An allocation is healthy when Consul says that the proxy listens.
func TestSet_WaitsForTheProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(g *structs.TaskGroup) {
			bare := meshed("bare")
			bare.Connect.SidecarService.DisableDefaultTCPCheck = true
			g.Services = []*structs.Service{meshed("web"), bare}
		})
		c := newFakeConsul()
		f.Consul = c
		defer f.Close()
		f.Open("one")
		f.begin("a", "b")
		synctest.Wait()
		if _, healthy := f.HealthySince(); healthy || len(f.Checks()) != 1 {
			t.Errorf("healthy before the proxy listens; checks %v", f.Checks())
		}
		id := consul.SidecarCheckID(c.services[0])
		c.mu.Lock()
		c.checks[id] = consul.CheckState{Status: structs.CheckPassing, Read: 1}
		c.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, healthy := f.HealthySince(); !healthy {
			t.Errorf("not healthy: %v", f.Checks())
		}
		f.Update() // the check goes on
		if _, healthy := f.HealthySince(); !healthy {
			t.Errorf("not healthy after another version of the job: %v", f.Checks())
		}
	})
}

// A fault that is known before a task runs is shown by the first task.
func TestSet_ShowsFaultsOfProxiesOnceATaskRuns(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		s := meshed("web")
		s.Connect.SidecarService.Port = "missing"
		g.Services = []*structs.Service{s}
	})
	c := newFakeConsul()
	f.Consul = c
	f.Open("one")
	if len(c.services) != 0 {
		t.Errorf("Consul has %q", c.names())
	}
	f.begin("a", "b")
	if len(f.task.events) != 1 {
		t.Errorf("events: %q", f.task.events)
	}
	if _, healthy := f.HealthySince(); healthy {
		t.Error("healthy without the service")
	}
}
