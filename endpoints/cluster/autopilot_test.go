package cluster_test

import (
	"testing"
	"time"

	"berth/structs"
	"berth/structs/admin"
)

func TestAutopilotConfig_IsReplacedOnlyInTheVersionThatWasRead(t *testing.T) {
	s := newServer(t)
	read := func() *admin.AutopilotConfig {
		return must(s, admin.AutopilotConfigGet, &structs.QueryRequest{}).Config
	}
	set := func(c admin.AutopilotConfig, cas bool) bool {
		return must(s, admin.AutopilotConfigSet, &admin.AutopilotConfigRequest{Config: c, CAS: cas}).Updated
	}
	first := *read()
	if first != admin.DefaultAutopilotConfig() {
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
	entries := s.Raft.Entries
	for _, spoil := range []func(*admin.AutopilotConfig){
		func(c *admin.AutopilotConfig) { c.LastContactThreshold = 0 },
		func(c *admin.AutopilotConfig) { c.LastContactThreshold = structs.MaxInterval + 1 },
		func(c *admin.AutopilotConfig) { c.MaxTrailingLogs = 0 },
		func(c *admin.AutopilotConfig) { c.MaxTrailingLogs = 10_000_001 },
		func(c *admin.AutopilotConfig) { c.MinQuorum = 1001 },
		func(c *admin.AutopilotConfig) { c.ServerStabilizationTime = -time.Second },
		func(c *admin.AutopilotConfig) { c.ServerStabilizationTime = structs.MaxInterval + 1 },
	} {
		bad := admin.DefaultAutopilotConfig()
		spoil(&bad)
		rejected(s, structs.KindInvalid, admin.AutopilotConfigSet, &admin.AutopilotConfigRequest{Config: bad})
	}
	if s.Raft.Entries != entries {
		t.Error("an invalid configuration reached the log")
	}
}

// TestRaftStats_AreThoseOfEachServer: the leader asks the others, so a follower answers by itself.
func TestRaftStats_AreThoseOfEachServer(t *testing.T) {
	s := newServer(t)
	s.Raft.IsMe = false
	got := must(s, admin.StatusRaftStats, &structs.QueryRequest{})
	if got.LastTerm != 3 || got.LastIndex != 70 || !got.KnownLeader {
		t.Errorf("got %+v", got)
	}
}
