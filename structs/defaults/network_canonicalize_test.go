package defaults

import (
	"berth/structs"
	"reflect"
	"testing"
)

// networked gives the group of a job a network.
func networked(n structs.NetworkResource) func(*structs.Job) {
	return group(func(g *structs.TaskGroup) { g.Networks = []*structs.NetworkResource{&n} })
}

func TestNetwork_Defaults(t *testing.T) {
	j := testJob(networked(structs.NetworkResource{
		ReservedPorts: []structs.Port{{Label: "a", Value: 80}},
		DynamicPorts:  []structs.Port{{Label: "b", HostNetwork: "public"}},
	}))
	Canonicalize(j)
	want := &structs.NetworkResource{
		Mode:          structs.NetworkModeHost,
		ReservedPorts: []structs.Port{{Label: "a", Value: 80, HostNetwork: structs.DefaultHostNetwork}},
		DynamicPorts:  []structs.Port{{Label: "b", HostNetwork: "public"}},
	}
	if got := j.TaskGroups[0].Networks[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
