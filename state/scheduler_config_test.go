package state

import (
	"testing"

	"berth/structs"
)

func setConfig(index uint64, algorithm string) *structs.SchedulerConfigRequest {
	return &structs.SchedulerConfigRequest{
		CAS: true,
		Config: structs.SchedulerConfiguration{
			SchedulerAlgorithm: algorithm,
			Indexes:            structs.Indexes{ModifyIndex: index},
		},
	}
}

func TestSchedulerConfigSet_ReplacesTheVersionThatItNames(t *testing.T) {
	w := newFixture(t)
	read := func() *structs.SchedulerConfiguration { return SchedulerConfig(w.s.Read()) }
	if got := *read(); got != structs.DefaultSchedulerConfiguration() {
		t.Errorf("the default is %+v", got)
	}
	wantKind(t, try(w, SchedulerConfigSet, setConfig(3, "spread")), structs.KindConflict)
	do(w, SchedulerConfigSet, setConfig(0, ""))
	first := read()
	if first.SchedulerAlgorithm != structs.AlgorithmBinpack || first.CreateIndex != w.s.Index() ||
		first.PreemptionConfig.SystemSchedulerEnabled {
		t.Errorf("got %+v", first)
	}
	wantKind(t, try(w, SchedulerConfigSet, setConfig(0, "spread")), structs.KindConflict)
	do(w, SchedulerConfigSet, setConfig(first.ModifyIndex, "spread"))
	second := read()
	if second.SchedulerAlgorithm != "spread" || second.CreateIndex != first.CreateIndex {
		t.Errorf("got %+v", second)
	}
	blind := setConfig(0, "binpack")
	blind.CAS = false
	do(w, SchedulerConfigSet, blind)
	if got := read(); got.SchedulerAlgorithm != "binpack" || got.ModifyIndex <= second.ModifyIndex {
		t.Errorf("got %+v", got)
	}
}

func TestSchedulerConfigSet_RefusesWhatBerthCannotDo(t *testing.T) {
	w := newFixture(t)
	over := setConfig(0, "binpack")
	over.Config.MemoryOversubscriptionEnabled = true
	wantKind(t, try(w, SchedulerConfigSet, over), structs.KindInvalid)
	wantKind(t, try(w, SchedulerConfigSet, setConfig(0, "best")), structs.KindInvalid)
}
