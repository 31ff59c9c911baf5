// Package rows serves the API over a state with many rows, for tests of the page.
package rows

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/endpoints"
	"berth/endpoints/core"
	"berth/internal/level"
	"berth/rpc"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs/cluster"
)

// leader is a server that leads and has applied all entries. It answers reads alone.
type leader struct{ core.Raft }

func (leader) Leader() (string, bool, bool, time.Duration) { return "127.0.0.1:1", true, true, 0 }
func (leader) Leads(string) context.Context                { return context.Background() }
func (leader) VerifyLeader() error                         { return nil }
func (leader) Alone() bool                                 { return true }
func (leader) LostLeadership() <-chan struct{}             { return nil }

// NewAPI returns the API of the cluster, and a function that ends it.
func (c Cluster) NewAPI() (h http.Handler, end func(), err error) {
	store := state.New()
	err = store.Write(2, c.fill)
	if err != nil {
		return nil, nil, err
	}

	logger := hclog.NewNullLogger()
	s := rpc.NewServer(logger, endpoints.New(core.Deps{
		Store:     store,
		Raft:      leader{},
		Nodes:     nodeconn.NewSessions(nil), // no node answers
		Logger:    logger,
		Level:     func() int { return level.Now },
		Autopilot: alone{},
	}).List()...)
	agent := &apitest.Agent{SelfIs: &api.AgentSelf{}}
	return api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: s,
		Agent:  agent,
		Logger: logger,
	}), s.Close, nil
}

// alone is the health of a cluster that has one server, which is healthy.
type alone struct{ core.Autopilot }

func (alone) Health() (*cluster.AutopilotHealthResponse, error) {
	return &cluster.AutopilotHealthResponse{Healthy: true}, nil
}
