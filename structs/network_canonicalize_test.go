package structs

import (
	"reflect"
	"testing"
)

// networked gives the group of a job a network.
func networked(n NetworkResource) func(*Job) {
	return group(func(g *TaskGroup) { g.Networks = []*NetworkResource{&n} })
}

func TestNetwork_Defaults(t *testing.T) {
	j := testJob(networked(NetworkResource{
		ReservedPorts: []Port{{Label: "a", Value: 80}},
		DynamicPorts:  []Port{{Label: "b", HostNetwork: "public"}},
	}))
	Canonicalize(j)
	want := &NetworkResource{
		Mode:          NetworkModeHost,
		ReservedPorts: []Port{{Label: "a", Value: 80, HostNetwork: DefaultHostNetwork}},
		DynamicPorts:  []Port{{Label: "b", HostNetwork: "public"}},
	}
	if got := j.TaskGroups[0].Networks[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
