package scheduler

import (
	"strings"
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
