package scheduler

import (
	"strings"
	"sync"
	"testing"

	"berth/structs"
)

func TestConsul_IsRequiredByServicesThatNeedIt(t *testing.T) {
	with := func(version string) *structs.Node {
		return &structs.Node{Attributes: map[string]string{"consul.version": version}}
	}
	g := &structs.TaskGroup{Services: []*structs.Service{{Name: "web", Provider: structs.ServiceProviderConsul}}}
	p := newGroupPlan(&structs.Job{}, g)
	for version, ok := range map[string]bool{
		"":       false,
		"x":      false,
		"1.7.9":  false,
		"1.8.0":  true,
		"1.15.4": true,
	} {
		if reason := meetsConstraints(p, with(version)); (reason == "") != ok {
			t.Errorf("version %q: %q", version, reason)
		}
	}
	if reason := meetsConstraints(p, &structs.Node{}); !strings.Contains(reason, "no Consul") {
		t.Errorf("a node without Consul: %q", reason)
	}
	g.Services[0].Provider = structs.ServiceProviderBerth
	other := newGroupPlan(&structs.Job{}, g)
	if reason := meetsConstraints(other, &structs.Node{}); reason != "" {
		t.Errorf("a service that the servers keep: %q", reason)
	}
	if len(p.specified) == len(other.specified) {
		t.Error("groups with and without services in Consul have one shape")
	}
}

// Workers plan at the same time.
func TestConsul_IsCheckedByWorkersAtOnce(t *testing.T) {
	g := &structs.TaskGroup{Services: []*structs.Service{{Name: "web", Provider: structs.ServiceProviderConsul}}}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			p := newGroupPlan(&structs.Job{}, g)
			for _, version := range []string{"1.8.0", "1.9.0", "1.10.0"} {
				n := &structs.Node{Attributes: map[string]string{"consul.version": version}}
				if reason := meetsConstraints(p, n); reason != "" {
					t.Errorf("version %s: %s", version, reason)
				}
			}
		})
	}
	workers.Wait()
}
