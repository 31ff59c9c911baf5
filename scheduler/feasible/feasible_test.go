package feasible

import (
	"testing"

	"berth/structs"
)

func TestDatacenters_ArePatterns(t *testing.T) {
	n := &structs.Node{Datacenter: "eu/dc-1"}
	for pattern, want := range map[string]bool{
		"*":         true,
		"**":        true,
		"eu/dc-*":   true,
		"eu*":       true, // as in the dialect, any text, also with a slash
		"*dc-1":     true,
		"*/*-*":     true,
		"e*u*1":     true,
		"eu/dc-1":   true,
		"eu/dc-1*":  true,
		"eu/dc-?":   false, // only * is special
		"eu/dc-[1]": false,
		"eu/dc-2":   false,
		"us*":       false,
		"*dc":       false,
		"eu/dc-1*1": false,
		"*1*1":      false,
		"eu":        false,
		"":          false,
		"[":         false,
	} {
		g := &Group{Job: &structs.Job{Datacenters: []string{"other", pattern}}}
		if got := inDatacenter(g, n) == ""; got != want {
			t.Errorf("%q: got %v", pattern, got)
		}
	}
}

func TestNodePools_AreAllOrOne(t *testing.T) {
	for _, c := range []struct {
		job, node string
		want      bool
	}{
		{"", "", true},
		{"", "default", true},
		{"default", "", true},
		{"all", "gpu", true},
		{"gpu", "gpu", true},
		{"gpu", "default", false},
		{"", "gpu", false},
	} {
		g := &Group{Job: &structs.Job{NodePool: c.job}}
		if got := inPool(g, &structs.Node{NodePool: c.node}) == ""; got != c.want {
			t.Errorf("job %q, node %q: got %v", c.job, c.node, got)
		}
	}
}
