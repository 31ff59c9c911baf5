package ui

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"berth/api"
	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
)

// nodeAlone is an agent without a server.
type nodeAlone struct{ apitest.Agent }

func newNodeAlone() *nodeAlone { return &nodeAlone{apitest.Agent{SelfIs: &api.AgentSelf{}}} }

func (*nodeAlone) Members(context.Context) ([]*cluster.AgentMember, error) {
	return nil, structs.Preconditionf("this agent runs no server")
}

func TestServers_AreThoseOfTheLeaderAtANodeAlone(t *testing.T) {
	servers := &apitest.Caller{}
	quietCluster(servers)
	h := pageOf(servers, newNodeAlone())
	apitest.Answer(servers, cluster.StatusLeader, cluster.StatusLeaderResponse{Leader: "10.0.0.1:4747"})
	apitest.Answer(servers, cluster.AutopilotHealth,
		cluster.AutopilotHealthResponse{Servers: []*cluster.ServerHealth{
			{Name: "s1", Address: "10.0.0.1:4747", SerfStatus: "alive"},
			{Name: "s2", Address: "10.0.0.2:4747", SerfStatus: "failed"},
		}})
	_, body := get(t, h, "/ui/topology")
	wants(t, body, "The cluster", "s1", "alive, leads", "s2", "failed")
	_, body = get(t, h, "/ui/")
	wants(t, body, "s2", "it is failed", "berth server members")
	if strings.Contains(body, "Not known: servers") {
		t.Errorf("the view says that it does not know the servers:\n%s", body)
	}
}

func TestTopology_WithoutTheRightToReadServers(t *testing.T) {
	servers := &apitest.Caller{}
	quietCluster(servers)
	h := pageOf(servers, newNodeAlone())
	apitest.Fail(servers, cluster.AutopilotHealth, structs.Deniedf("the token may not read the servers"))
	apitest.Answer(servers, cluster.StatusLeader, cluster.StatusLeaderResponse{Leader: "10.0.0.1:4747"})
	resp, body := get(t, h, "/ui/topology")
	wants(t, body, "the token may not read the servers", `type="password"`)
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("with nothing to draw: got %d", resp.StatusCode)
	}

	apitest.Answer(servers, structs.NodeList, structs.NodeListResponse{Nodes: []*structs.NodeListStub{
		{ID: "1", Name: "n1", Datacenter: "east", NodePool: "default", Status: structs.NodeReady},
	}})
	resp, body = get(t, h, "/ui/topology")
	wants(t, body, "Not known: the servers: the token may not read the servers", "n1")
	if resp.StatusCode != http.StatusOK {
		t.Errorf("with a node: got %d", resp.StatusCode)
	}
}
