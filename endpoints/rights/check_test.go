package rights_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// The namespace of the allocation decides about the routes of agents, and not the one that a request names. A
// command in a task without a sandbox needs more.
func TestCheck_AsksAboutTheAllocation(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "z1")
	s.AddAlloc("boxed", "n1")
	s.AddAlloc("raw", "n1", func(g *structs.TaskGroup) {
		g.Tasks = append(g.Tasks,
			&structs.Task{Name: "host", Driver: "raw_exec"},
			&structs.Task{Name: "plugin", Driver: "podman"},
			&structs.Task{Name: "privileged", Driver: "docker", Config: map[string]any{"privileged": true}})
	})
	s.Guard()
	token := s.Token
	runs := token(`namespace "default" { capabilities = ["alloc-exec"] }`)
	runsAll := token(`namespace "default" { capabilities = ["alloc-exec", "alloc-node-exec"] }`)
	elsewhere := token(`namespace "team" { policy = "write" }`)
	for _, c := range []struct {
		secret, alloc, task string
		want                bool
	}{
		{runs, "boxed", "t", true},
		{runs, "raw", "t", true},
		{runs, "raw", "host", false},
		{runs, "raw", "", false},
		{runs, "raw", "plugin", false},
		{runs, "raw", "privileged", false},
		{runsAll, "raw", "privileged", true},
		{runsAll, "raw", "host", true},
		{elsewhere, "boxed", "t", false},
		{elsewhere, "gone", "t", false}, // a node may still have it
		{s.ManagementToken(), "gone", "t", true},
		{elsewhere, "", "", true}, // a request about no allocation
	} {
		req := &access.CheckRequest{
			Needs:        access.NeedsAllocExec,
			AllocID:      c.alloc,
			Task:         c.task,
			QueryOptions: structs.QueryOptions{Namespace: "team", AuthToken: c.secret},
		}
		_, err := rpc.Call(t.Context(), s.RPC, access.Check, req)
		if (err == nil) != c.want || err != nil && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("allocation %s, task %q: got %v, want it allowed: %t", c.alloc, c.task, err, c.want)
		}
	}
}
