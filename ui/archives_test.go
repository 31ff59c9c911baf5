package ui

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
)

// The leader saves the archives, so each agent asks it for their state.
func TestProblems_HaveTheArchivesThatFail(t *testing.T) {
	for state, reason := range map[string]string{
		"failing": "the last attempt failed",
		"overdue": "the newest one is older than two periods: 2026-01-02T03:04:05Z",
		"ok":      "",
		"off":     "",
	} {
		stats := map[string]string{"state": state, "newest": "2026-01-02T03:04:05Z"}
		if reason != "" {
			stats["error"] = "no such bucket"
		}
		leads := &apitest.Agent{
			SelfIs:  &api.AgentSelf{Stats: map[string]map[string]string{"snapshot_agent": stats}},
			Servers: map[string]api.AgentPlace{"leader": {Here: true, AgentID: "s1"}},
		}
		servers := &apitest.Caller{}
		quietCluster(servers)
		routes := api.NewHandler(api.Config{
			Routes: areas.Routes(),
			Caller: servers,
			Agent:  leads,
			Logger: hclog.NewNullLogger(),
		})
		leader := httptest.NewServer(routes)
		follows := &apitest.Agent{SelfIs: &api.AgentSelf{}, Servers: map[string]api.AgentPlace{
			"leader": {Server: "s1", HTTPAddr: strings.TrimPrefix(leader.URL, "http://")},
		}}
		for at, agent := range map[string]*apitest.Agent{"leader": leads, "follower": follows} {
			_, body := get(t, pageOf(servers, agent), "/ui/")
			if reason == "" {
				wants(t, body, "Nothing is wrong")
				continue
			}
			wants(t, body, reason, "no such bucket", "snapshot_agent takes archives", "berth agent-info")
			if strings.Contains(body, "Not known") {
				t.Errorf("%s, %s: something is not known", at, state)
			}
		}
		leader.Close()
	}
}
