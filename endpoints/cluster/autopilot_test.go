package cluster_test

import (
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/cluster"
)

func TestAutopilotConfig_IsReplacedOnlyInTheVersionThatWasRead(t *testing.T) {
	s := endpointstest.New(t)
	read := func() *cluster.AutopilotConfig {
		return endpointstest.Must(s, cluster.AutopilotConfigGet, &structs.QueryRequest{}).Config
	}
	set := func(c cluster.AutopilotConfig, cas bool) bool {
		return endpointstest.Must(s, cluster.AutopilotConfigSet,
			&cluster.AutopilotConfigRequest{Config: c, CAS: cas}).Updated
	}
	first := *read()
	if first != cluster.DefaultAutopilotConfig() {
		t.Errorf("got %+v, want the default", first)
	}
	next := first
	next.MinQuorum = 3
	if !set(next, true) || set(next, true) {
		t.Error("want the first of two changes of one version, and not the second")
	}
	if got := read(); got.MinQuorum != 3 {
		t.Errorf("got %+v", got)
	}
	if !set(first, false) || read().MinQuorum != 0 {
		t.Error("a change without a condition was not made")
	}
	entries := s.Raft.Len()
	for _, spoil := range []func(*cluster.AutopilotConfig){
		func(c *cluster.AutopilotConfig) { c.LastContactThreshold = 0 },
		func(c *cluster.AutopilotConfig) { c.LastContactThreshold = structs.MaxInterval + 1 },
		func(c *cluster.AutopilotConfig) { c.MaxTrailingLogs = 0 },
		func(c *cluster.AutopilotConfig) { c.MaxTrailingLogs = 10_000_001 },
		func(c *cluster.AutopilotConfig) { c.MinQuorum = 1001 },
		func(c *cluster.AutopilotConfig) { c.ServerStabilizationTime = -time.Second },
		func(c *cluster.AutopilotConfig) { c.ServerStabilizationTime = structs.MaxInterval + 1 },
	} {
		bad := cluster.DefaultAutopilotConfig()
		spoil(&bad)
		endpointstest.Rejected(s, structs.KindInvalid, cluster.AutopilotConfigSet,
			&cluster.AutopilotConfigRequest{Config: bad})
	}
	if s.Raft.Len() != entries {
		t.Error("an invalid configuration reached the log")
	}
}

// TestRaftStats_AreThoseOfEachServer: the leader asks the others, so a follower answers by itself.
func TestRaftStats_AreThoseOfEachServer(t *testing.T) {
	s := endpointstest.New(t)
	s.Raft.IsMe = false
	got := endpointstest.Must(s, cluster.StatusRaftStats, &structs.QueryRequest{})
	if got.LastTerm != 3 || got.LastIndex != 70 || !got.KnownLeader {
		t.Errorf("got %+v", got)
	}
}
