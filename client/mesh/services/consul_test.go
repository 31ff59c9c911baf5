package services

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/structs"
)

// fakeConsul has the services of one allocation.
type fakeConsul struct {
	mu        sync.Mutex
	puts      int
	services  []*consul.Service
	checks    map[string]consul.CheckState
	beats     map[string]string
	followers int
}

func newFakeConsul() *fakeConsul {
	return &fakeConsul{checks: map[string]consul.CheckState{}, beats: map[string]string{}}
}

func (c *fakeConsul) Put(_ string, services []*consul.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.puts++
	c.services = services
	clear(c.beats)
	for _, s := range services {
		for _, check := range s.Checks {
			c.beats[check.CheckID] = ""
		}
	}
}

// Beat drops the results of checks that are not there, as the syncer does.
func (c *fakeConsul) Beat(checkID, status, _ string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.beats[checkID]; known {
		c.beats[checkID] = status
	}
}

func (c *fakeConsul) Check(checkID string) (consul.CheckState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, known := c.checks[checkID]
	return state, known
}

func (c *fakeConsul) Follow() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followers++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.followers--
	}
}

func (c *fakeConsul) names() (names []string) {
	for _, s := range c.services {
		names = append(names, s.Name)
	}
	return names
}

// say answers for the checks of a type.
func (c *fakeConsul) say(status string, read uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.services {
		for _, check := range s.Checks {
			if check.TTL == "" {
				c.checks[check.CheckID] = consul.CheckState{Status: status, Output: "said", Read: read}
			}
		}
	}
}

func inConsul(name string, checks ...*structs.ServiceCheck) *structs.Service {
	return &structs.Service{
		Name:      name,
		PortLabel: "http",
		Provider:  structs.ServiceProviderConsul,
		Checks:    checks,
	}
}

func tcpCheck() *structs.ServiceCheck {
	return &structs.ServiceCheck{
		Name:     "answers",
		Type:     structs.CheckTCP,
		Interval: 10 * time.Second,
		Timeout:  time.Second,
		OnUpdate: structs.OnUpdateRequireHealthy,
	}
}

func TestSet_RegistersServicesInConsulWhileTheirTasksRun(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		own := inConsul("own-${task}")
		own.EnableTagOverride = true
		own.Tags = []string{"live"}
		own.CanaryTags = []string{"canary"}
		own.TaggedAddresses = map[string]string{"wan-${task}": "192.0.2.1"}
		own.Weights = &structs.ServiceWeights{Passing: 3, Warning: 1}
		g.Services = []*structs.Service{inConsul("group"), {Name: "kept", Provider: structs.ServiceProviderBerth}}
		g.Tasks[0].Services = []*structs.Service{own}
	})
	c := newFakeConsul()
	f.Consul = c
	f.alloc.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
	f.begin("a")
	if s := c.services[0]; s.Name != "own-a" || s.Address != "10.0.0.1" || s.Port != 20000 || !s.EnableTagOverride ||
		s.Weights.Passing != 3 ||
		s.TaggedAddresses["wan-a"] != (api.ServiceAddress{Address: "192.0.2.1", Port: 20000}) ||
		!slices.Equal(s.Tags, []string{"canary"}) || s.ID != "_berth-task-"+f.alloc.ID+"-a-own-${task}-http" {
		t.Errorf("the service of a task is %+v", s)
	}
	f.begin("b")
	f.checkOffered(t, "with all tasks", "kept")
	if got := c.names(); !slices.Equal(got, []string{"group", "own-a"}) {
		t.Errorf("Consul has %q", got)
	}
	puts := c.puts
	f.Update()
	f.begin("b")
	if c.puts != puts {
		t.Errorf("%d more calls without a change", c.puts-puts)
	}
	f.alloc = &structs.Allocation{ID: f.alloc.ID, Ports: f.alloc.Ports}
	f.Update()
	if got := c.services[1].Tags; !slices.Equal(got, []string{"live"}) {
		t.Errorf("the tags after the promotion are %q", got)
	}
	f.Withdraw("a")
	if got := c.names(); !slices.Equal(got, []string{"group"}) {
		t.Errorf("Consul has %q while a is about to stop", got)
	}
	f.Stop("a")
	f.Stop("b")
	if got := c.names(); len(got) != 0 {
		t.Errorf("Consul has %q at the end", got)
	}
}

func TestSet_LeavesServicesInConsulWhenTheAgentEnds(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) { g.Services = []*structs.Service{inConsul("web")} })
	c := newFakeConsul()
	f.Consul = c
	f.begin("a", "b")
	f.Close()
	f.Stop("a")
	if got := c.names(); !slices.Equal(got, []string{"web"}) {
		t.Errorf("Consul has %q after the end of the agent", got)
	}
}

func TestSet_FollowsTheChecksThatConsulRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(g *structs.TaskGroup) {
			g.Services = []*structs.Service{inConsul("web", tcpCheck(), scriptCheck())}
		})
		c := newFakeConsul()
		f.Consul = c
		defer f.Close()
		f.begin("a", "b")
		synctest.Wait()
		if _, healthy := f.HealthySince(); healthy || c.followers != 1 {
			t.Errorf("healthy before Consul has run the check; %d followers", c.followers)
		}
		c.say(structs.CheckPassing, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, healthy := f.HealthySince(); !healthy {
			t.Errorf("not healthy: %v", f.Checks())
		}
		if got := slices.Collect(maps.Values(c.beats)); !slices.Contains(got, structs.CheckPassing) {
			t.Errorf("results of scripts in Consul: %q", got)
		}
		c.say(structs.CheckFailing, 2)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, healthy := f.HealthySince(); healthy {
			t.Error("healthy while a check fails")
		}
		c.say(structs.CheckPending, 3) // Consul has lost the check and has it again
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, r := range f.Checks() {
			if r.Check == "answers" && (r.Status != structs.CheckFailing || r.Output != "said") {
				t.Errorf("the last result: %+v", r)
			}
		}
		f.Withdraw("a", "b")
		synctest.Wait()
		if c.followers != 0 {
			t.Errorf("%d followers after the end", c.followers)
		}
	})
}

func TestSet_SaysThatTheNodeHasNoConsul(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) { g.Services = []*structs.Service{inConsul("web")} })
	f.begin("a", "b")
	if len(f.task.events) != 1 {
		t.Errorf("events: %q", f.task.events)
	}
	if _, healthy := f.HealthySince(); healthy {
		t.Error("healthy without the service")
	}
}
