package clitest

import (
	"context"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// answerAutopilot keeps a configuration of autopilot, whose index grows with each change. Two servers are
// healthy, and more than two voters are too few.
func (w *Cluster) answerAutopilot() {
	config := cluster.DefaultAutopilotConfig()
	config.ModifyIndex = 7
	apitest.On(w.Caller, cluster.AutopilotConfigGet,
		func(context.Context, *structs.QueryRequest) (*cluster.AutopilotConfigResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return &cluster.AutopilotConfigResponse{Config: new(config)}, nil
		})

	apitest.On(w.Caller, cluster.AutopilotConfigSet,
		func(_ context.Context, r *cluster.AutopilotConfigRequest) (*cluster.AutopilotConfigSetResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := validate.AutopilotConfig(&r.Config); err != nil {
				return nil, err
			}

			if r.CAS && r.Config.ModifyIndex != config.ModifyIndex {
				return &cluster.AutopilotConfigSetResponse{}, nil
			}

			config = r.Config
			config.ModifyIndex++
			return &cluster.AutopilotConfigSetResponse{Updated: true}, nil
		})

	apitest.On(w.Caller, cluster.ClockGet, readClocks)
	apitest.On(w.Caller, cluster.ClockAccept,
		func(context.Context, *cluster.ClockAcceptRequest) (*structs.Empty, error) {
			return &structs.Empty{}, nil
		})

	apitest.On(w.Caller, cluster.AutopilotHealth,
		func(context.Context, *structs.QueryRequest) (*cluster.AutopilotHealthResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return serversOfTwo(config.MinQuorum <= 2), nil
		})
}

// clusterNow is the cluster time.
var clusterNow = time.Unix(1_800_000_000, 0)

// readClocks returns the clocks of three servers, of which the leader and a second one were off for a week.
func readClocks(context.Context, *structs.QueryRequest) (*cluster.ClockResponse, error) {
	const week = 7 * 24 * time.Hour
	now := clusterNow
	return &cluster.ClockResponse{
		ClusterTime: &cluster.ClusterTime{
			Time:   now.UnixNano(),
			Ahead:  week,
			Since:  now.Add(-20 * time.Minute).UnixNano(),
			Agreed: now.Add(-20 * time.Minute).UnixNano(),
		},
		Now:        now.UnixNano(),
		Wall:       now.Add(week).UnixNano(),
		Quarantine: time.Hour,
		Servers: []*cluster.ServerClock{
			{ID: "s1", Name: "s1.global", Address: "10.0.0.1:4747", Leader: true},
			{ID: "s2", Name: "s2.global", Address: "10.0.0.2:4747", Ahead: time.Second},
			{ID: "s3", Name: "s3.global", Address: "10.0.0.3:4747", Ahead: -30 * time.Hour},
			{ID: "s4", Name: "s4.global", Address: "10.0.0.4:4747", Fault: "no answer"},
		},
	}, nil
}

// serversOfTwo returns the health of two servers, of which the second may be unhealthy.
func serversOfTwo(healthy bool) *cluster.AutopilotHealthResponse {
	second := &cluster.ServerHealth{
		ID:          "s2",
		Name:        "s2.global",
		Address:     "10.0.0.2:4747",
		SerfStatus:  "alive",
		Version:     "0.2.0",
		LastContact: 31 * time.Millisecond,
		LastTerm:    2,
		LastIndex:   90,
		Healthy:     true,
		Voter:       true,
		StableSince: time.Unix(1_800_000_000, 0),
	}
	if !healthy {
		second.SerfStatus = "failed"
		second.LastContact = -1
		second.Healthy = false
	}
	var differences []*cluster.SettingDifference
	if healthy { // the one does not make the other
		differences = []*cluster.SettingDifference{{
			Setting: "tls.mode",
			Servers: []cluster.ServerSetting{{Server: "s1.global", Value: "require"}, {Server: "s2.global"}},
		}}
	}
	return &cluster.AutopilotHealthResponse{
		Differences: differences,
		Healthy:     healthy,
		Leader:      "s1",
		Voters:      []string{"s1", "s2"},
		Servers: []*cluster.ServerHealth{{
			ID:          "s1",
			Name:        "s1.global",
			Address:     "10.0.0.1:4747",
			SerfStatus:  "alive",
			Version:     "0.2.0",
			Leader:      true,
			LastTerm:    2,
			LastIndex:   91,
			Healthy:     true,
			Voter:       true,
			StableSince: time.Unix(1_800_000_000, 0),
		}, second},
	}
}
