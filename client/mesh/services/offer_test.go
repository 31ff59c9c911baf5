package services

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

// nodeAt returns a node with an address.
func nodeAt(address string) *structs.Node {
	return &structs.Node{NodeResources: &structs.NodeResources{
		NodeNetworks: []*structs.NodeNetworkResource{{
			Addresses: []*structs.NodeNetworkAddress{{Alias: structs.DefaultHostNetwork, Address: address}},
		}},
	}}
}

func TestSet_FindsTheAddressOfAService(t *testing.T) {
	for name, c := range map[string]struct {
		service structs.Service
		want    string // "" for a fault
	}{
		"a port of the group":      {structs.Service{PortLabel: "http"}, "10.0.0.1:20000"},
		"a placeholder":            {structs.Service{PortLabel: "${task}"}, "10.0.0.1:20001"},
		"a number":                 {structs.Service{PortLabel: "8080"}, "10.0.0.9:8080"},
		"no port":                  {structs.Service{}, "10.0.0.9:0"},
		"an address of its own":    {structs.Service{PortLabel: "http", Address: "${task}.org"}, "a.org:20000"},
		"a number that is no port": {structs.Service{PortLabel: "70000"}, ""},
		"zero":                     {structs.Service{PortLabel: "0"}, ""},
		"a label that nothing has": {structs.Service{PortLabel: "other"}, ""},
		"a check without its port": {structs.Service{Checks: []*structs.ServiceCheck{{PortLabel: "other"}}}, ""},
		"a check with a port": {
			structs.Service{Checks: []*structs.ServiceCheck{{PortLabel: "http"}}},
			"10.0.0.9:0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := c.service
			service.Name = "web"
			f := newFixture(t, func(g *structs.TaskGroup) { g.Tasks[0].Services = []*structs.Service{&service} })
			f.node = nodeAt("10.0.0.9")
			f.alloc.Ports = append(f.alloc.Ports,
				structs.AllocatedPort{Label: "a", Value: 20001, HostIP: "10.0.0.1"})
			for _, check := range service.Checks {
				check.Interval = time.Hour
			}
			f.begin("a")
			got := ""
			for _, i := range f.Instances() {
				got = net.JoinHostPort(i.Address, strconv.Itoa(i.Port))
			}
			if got != c.want || (got == "") != (len(f.task.events) == 1) {
				t.Errorf("got %q, want %q; the events are %q", got, c.want, f.task.events)
			}
		})
	}
}

func TestSet_ReplacesTagsAndMetaOfACanary(t *testing.T) {
	tags := []string{"of-${task}"}
	meta := map[string]string{"of": "${task}"}
	for name, c := range map[string]struct {
		service structs.Service
		canary  bool
		tags    []string
		meta    map[string]string
	}{
		"no canary": {
			structs.Service{CanaryTags: []string{"new"}, CanaryMeta: map[string]string{"is": "new"}}, false,
			[]string{"of-a"}, map[string]string{"of": "a"},
		},
		"a canary": {
			structs.Service{CanaryTags: []string{"new-${task}"}, CanaryMeta: map[string]string{"is": "${task}"}}, true,
			[]string{"new-a"}, map[string]string{"is": "a"},
		},
		"a canary without its own": {structs.Service{}, true, []string{"of-a"}, map[string]string{"of": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			service := c.service
			service.Name = "web"
			service.Tags = tags
			service.Meta = meta
			f := newFixture(t, func(g *structs.TaskGroup) { g.Tasks[0].Services = []*structs.Service{&service} })
			f.alloc.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: c.canary}
			f.begin("a")
			if i := f.Instances()[0]; !slices.Equal(i.Tags, c.tags) || !maps.Equal(i.Meta, c.meta) {
				t.Errorf("the tags are %q, the meta %q", i.Tags, i.Meta)
			}
		})
	}
}

// TestSet_HealthFollowsOnUpdate runs a check that warns in its first minute and then succeeds.
func TestSet_HealthFollowsOnUpdate(t *testing.T) {
	for rule, want := range map[string]struct {
		warning bool          // healthy while it warns
		since   time.Duration // once it succeeds
	}{
		structs.OnUpdateRequireHealthy: {false, time.Minute},
		structs.OnUpdateIgnoreWarnings: {true, 0},
		structs.OnUpdateIgnore:         {true, -1},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				check := scriptCheck()
				check.OnUpdate = rule
				f := newFixture(t, func(g *structs.TaskGroup) {
					g.Services = []*structs.Service{{Name: "web", Checks: []*structs.ServiceCheck{check}}}
				})
				defer f.Close()
				f.task.setCode(1)
				began := time.Now()
				f.begin("a", "b")
				synctest.Wait()
				if _, healthy := f.HealthySince(); healthy != want.warning {
					t.Errorf("with a warning: healthy %v", healthy)
				}
				f.task.setCode(0)
				time.Sleep(time.Minute)
				synctest.Wait()
				since, healthy := f.HealthySince()
				ignored := want.since < 0 && since.IsZero()
				if !healthy || !ignored && since.Sub(began) != want.since {
					t.Errorf("with a success: healthy %v since %s", healthy, since)
				}
			})
		})
	}
}

func TestSet_TellsTheResultsOfChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		absent := scriptCheck()
		absent.Name = "absent"
		absent.TaskName = "c"
		f := newFixture(t, func(g *structs.TaskGroup) {
			g.Tasks[1].Services = []*structs.Service{
				{Name: "web", Checks: []*structs.ServiceCheck{scriptCheck(), absent}},
			}
		})
		defer f.Close()
		f.task.mu.Lock() // the first run waits for it
		f.begin("a", "b")
		id := checkID(f.Instances()[0].ID, 0)
		want := structs.CheckResult{
			ID:      id,
			Check:   "look",
			Group:   "job.g[0]",
			Task:    "b",
			Service: "web",
			Mode:    structs.CheckHealthiness,
			Status:  structs.CheckPending,
		}
		if got := f.Checks()[id]; *got != want {
			t.Errorf("before the first run: %+v", *got)
		}
		f.task.mu.Unlock()
		synctest.Wait()
		want.Status = structs.CheckPassing
		want.Output = "looked"
		want.Timestamp = time.Now().Unix()
		if got := f.Checks()[id]; *got != want {
			t.Errorf("after the first run: %+v", *got)
		}
		other := f.Checks()[checkID(f.Instances()[0].ID, 1)]
		if other.Status != structs.CheckFailing || other.Output != `script: task "c" does not run` {
			t.Errorf("the check in a task that does not run: %+v", *other)
		}
	})
}
