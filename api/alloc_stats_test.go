package api_test

import (
	"net/http"
	"strings"
	"testing"

	"berth/api"
	"berth/api/allocs"
	"berth/api/apitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// measured is the use of an allocation with one task that runs.
func measured(task string) map[string]*nodecalls.AllocResourceUsage {
	usage := nodecalls.NewAllocResourceUsage()
	one := &nodecalls.TaskResourceUsage{ResourceUsage: nodecalls.NewResourceUsage(), Timestamp: 77}
	one.ResourceUsage.MemoryStats.SetValues(5, 6, 7)
	usage.AddTask(task, one)
	return map[string]*nodecalls.AllocResourceUsage{"here": usage}
}

// placeOn lets the server's caller know the allocations on a node with the address.
func placeOn(s *server, addr string) {
	apitest.Answer(s.caller, structs.AllocGet, structs.AllocGetResponse{
		Alloc: &structs.Allocation{ID: "here", NodeID: "n"},
	})
	apitest.Answer(s.caller, structs.NodeGet, structs.NodeGetResponse{
		Node: &structs.NodeDetail{Node: structs.Node{ID: "n", HTTPAddr: addr}},
	})
}

// TestAllocStats_ComeFromTheNodesAgent: another agent forwards the request once. An error of the agent that
// runs the allocation is the answer.
func TestAllocStats_ComeFromTheNodesAgent(t *testing.T) {
	far, near := newServer(t), newServer(t)
	far.agent.UsageIs = measured("web")
	addr := strings.TrimPrefix(far.URL, "http://")
	placeOn(near, addr)
	placeOn(far, addr)
	for _, s := range []*server{near, far} {
		c := api.NewClient(api.ClientConfig{Address: s.URL})
		t.Cleanup(c.Close)
		for _, task := range []string{"", "web"} {
			got, err := allocs.Stats(t.Context(), c, "here", task)
			if err != nil || got.Timestamp != 77 || got.Tasks["web"].ResourceUsage.MemoryStats.RSS != 5 {
				t.Errorf("task %q: got %+v, %v", task, got, err)
			}
		}
		_, err := allocs.Stats(t.Context(), c, "here", "ended")
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "does not run") {
			t.Errorf("an ended task: %v", err)
		}
	}
	far.caller.Take()
	resp, body := near.do(t, "GET", "/v1/client/allocation/gone/stats", "")
	if resp.StatusCode != http.StatusNotFound || len(far.caller.Take()) > 0 {
		t.Errorf("an allocation that no agent runs: %s %s", resp.Status, body)
	}
	http.DefaultClient.CloseIdleConnections()
	far.Close()
	resp, body = near.do(t, "GET", "/v1/client/allocation/here/stats", "")
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, addr) {
		t.Errorf("a node that cannot be reached: %s %s", resp.Status, body)
	}
	apitest.Answer(near.caller, structs.AllocGet, structs.AllocGetResponse{
		Alloc: &structs.Allocation{ID: "here"},
	})
	resp, body = near.do(t, "GET", "/v1/client/allocation/here/stats", "")
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("an allocation without a node: %s %s", resp.Status, body)
	}
}
