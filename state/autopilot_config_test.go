package state_test

import (
	"testing"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

func TestAutopilotConfigSet_ReplacesTheVersionThatItNames(t *testing.T) {
	w := newFixture(t)
	read := func() *cluster.AutopilotConfig { return state.AutopilotConfig(w.Store.Read()) }
	request := func(index, minQuorum uint64, cas bool) *cluster.AutopilotConfigRequest {
		c := cluster.DefaultAutopilotConfig()
		c.MinQuorum = minQuorum
		c.ModifyIndex = index
		return &cluster.AutopilotConfigRequest{Config: c, CAS: cas}
	}
	if got := *read(); got != cluster.DefaultAutopilotConfig() {
		t.Errorf("the default is %+v", got)
	}
	wantKind(t, try(w, state.AutopilotConfigSet, request(3, 1, true)), structs.KindConflict)
	do(w, state.AutopilotConfigSet, request(0, 1, true))
	first := read()
	if first.MinQuorum != 1 || first.CreateIndex != w.Store.Index() {
		t.Errorf("got %+v", first)
	}
	wantKind(t, try(w, state.AutopilotConfigSet, request(0, 2, true)), structs.KindConflict)
	do(w, state.AutopilotConfigSet, request(first.ModifyIndex, 2, true))
	if got := read(); got.MinQuorum != 2 || got.CreateIndex != first.CreateIndex {
		t.Errorf("got %+v", got)
	}
	do(w, state.AutopilotConfigSet, request(0, 4, false))
	if got := read(); got.MinQuorum != 4 {
		t.Errorf("got %+v", got)
	}
	seen := request(0, 4, false)
	seen.Config.MostVoters = 5
	do(w, state.AutopilotConfigSet, seen)
	do(w, state.AutopilotConfigSet, request(0, 1, false)) // of a user
	if got := read(); got.MostVoters != 5 || got.MinQuorum != 1 {
		t.Errorf("after a change by a user: got %+v", got)
	}
	bad := request(0, 0, false)
	bad.Config.MaxTrailingLogs = 0
	wantKind(t, try(w, state.AutopilotConfigSet, bad), structs.KindInvalid)
	bad = request(0, 0, false)
	bad.Config.MostVoters = 1001
	wantKind(t, try(w, state.AutopilotConfigSet, bad), structs.KindInvalid)
}
