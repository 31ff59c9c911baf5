package feasible

import (
	"strings"
	"sync"
	"testing"

	"berth/internal/level"
	"berth/structs"
)

func TestConsul_IsRequiredByServicesThatNeedIt(t *testing.T) {
	with := func(version string) *structs.Node {
		return &structs.Node{Attributes: map[string]string{"consul.version": version}}
	}
	g := &structs.TaskGroup{Services: []*structs.Service{{Name: "web", Provider: structs.ServiceProviderConsul}}}
	p := newGroup(&Outlook{FieldsAbove: level.Above}, &structs.Job{}, g)
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
	other := newGroup(&Outlook{FieldsAbove: level.Above}, &structs.Job{}, g)
	if reason := meetsConstraints(other, &structs.Node{}); reason != "" {
		t.Errorf("a service that the servers keep: %q", reason)
	}
	if len(p.specified) == len(other.specified) {
		t.Error("groups with and without services in Consul have one shape")
	}
}

func TestConsul_HasTheServiceMeshThatAGroupUses(t *testing.T) {
	g := &structs.TaskGroup{Services: []*structs.Service{{
		Name:     "web",
		Provider: structs.ServiceProviderConsul,
		Connect:  &structs.Connect{SidecarService: &structs.SidecarService{}},
	}}}
	p := newGroup(&Outlook{FieldsAbove: level.Above}, &structs.Job{}, g)
	for connect, want := range map[string]string{
		"":      "the Consul of the node has no service mesh, which the group uses (consul.connect)",
		"false": "the Consul of the node has no service mesh, which the group uses (consul.connect)",
		"true":  "",
	} {
		n := &structs.Node{Attributes: map[string]string{"consul.version": "1.15.4", "consul.connect": connect}}
		if reason := meetsConstraints(p, n); reason != want {
			t.Errorf("connect %q: got %q", connect, reason)
		}
	}
	g.Services[0].Connect = nil
	other := newGroup(&Outlook{FieldsAbove: level.Above}, &structs.Job{}, g)
	if len(p.specified) == len(other.specified) {
		t.Error("groups within and without the service mesh have one shape")
	}
}

// A proxy learns of its upstreams while it runs, but not of another port.
// Workers plan at the same time.
func TestConsul_IsCheckedByWorkersAtOnce(t *testing.T) {
	g := &structs.TaskGroup{Services: []*structs.Service{{Name: "web", Provider: structs.ServiceProviderConsul}}}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			p := newGroup(&Outlook{FieldsAbove: level.Above}, &structs.Job{}, g)
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
