package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestHostStats_OfAnotherNodeComeFromItsAgent(t *testing.T) {
	there := newServer(t)
	there.agent.Node = "n2"
	there.agent.StatsAre = &nodecalls.HostStats{Uptime: 99}
	here := newServer(t)
	apitest.On(here.caller, structs.NodeGet,
		func(_ context.Context, req *structs.NodeGetRequest) (*structs.NodeGetResponse, error) {
			node := &structs.NodeDetail{}
			node.ID = req.NodeID
			node.HTTPAddr = strings.TrimPrefix(there.URL, "http://")
			return &structs.NodeGetResponse{Node: node}, nil
		})
	for query, want := range map[string]string{
		"":            `"Uptime":7`,
		"?node_id=n1": `"Uptime":7`,
		"?node_id=n2": `"Uptime":99`,
	} {
		resp, body := here.do(t, "GET", "/v1/client/stats"+query, "")
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: got %s, want %s: %s", query, resp.Status, want, body)
		}
	}
	// The other agent does not run it either: the request goes no further.
	resp, body := here.do(t, "GET", "/v1/client/stats?node_id=n3", "")
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("a node that neither agent runs: got %s, want 404: %s", resp.Status, body)
	}
}

func TestNode_AlsoHasItsResourcesInTheOlderShape(t *testing.T) {
	s := newServer(t)
	node := &structs.NodeDetail{}
	node.ID = "n1"
	node.NodeResources = &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: 4000}}
	apitest.Answer(s.caller, structs.NodeGet, structs.NodeGetResponse{Node: node})
	_, body := s.do(t, "GET", "/v1/node/n1", "")
	for _, want := range []string{
		`"NodeResources":{"Cpu":{"CpuShares":4000`,
		`"Resources":{"CPU":4000`,
		`"Reserved":{"CPU":0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
}
