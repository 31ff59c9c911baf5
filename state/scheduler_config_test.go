package state_test

import (
	"testing"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

func setConfig(index uint64, algorithm string) *cluster.SchedulerConfigRequest {
	return &cluster.SchedulerConfigRequest{
		CAS: true,
		Config: cluster.SchedulerConfiguration{
			SchedulerAlgorithm: algorithm,
			Indexes:            structs.Indexes{ModifyIndex: index},
		},
	}
}

func TestSchedulerConfigSet_ReplacesTheVersionThatItNames(t *testing.T) {
	w := newFixture(t)
	read := func() *cluster.SchedulerConfiguration { return state.SchedulerConfig(w.Store.Read()) }
	if got := *read(); got != cluster.DefaultSchedulerConfiguration() {
		t.Errorf("the default is %+v", got)
	}
	wantKind(t, try(w, state.SchedulerConfigSet, setConfig(3, "spread")), structs.KindConflict)
	do(w, state.SchedulerConfigSet, setConfig(0, ""))
	first := read()
	if first.SchedulerAlgorithm != cluster.AlgorithmBinpack || first.CreateIndex != w.Store.Index() ||
		first.PreemptionConfig.SystemSchedulerEnabled {
		t.Errorf("got %+v", first)
	}
	wantKind(t, try(w, state.SchedulerConfigSet, setConfig(0, "spread")), structs.KindConflict)
	do(w, state.SchedulerConfigSet, setConfig(first.ModifyIndex, "spread"))
	second := read()
	if second.SchedulerAlgorithm != "spread" || second.CreateIndex != first.CreateIndex {
		t.Errorf("got %+v", second)
	}
	blind := setConfig(0, "binpack")
	blind.CAS = false
	do(w, state.SchedulerConfigSet, blind)
	if got := read(); got.SchedulerAlgorithm != "binpack" || got.ModifyIndex <= second.ModifyIndex {
		t.Errorf("got %+v", got)
	}
}

func TestSchedulerConfigSet_RejectsWhatBerthCannotDo(t *testing.T) {
	w := newFixture(t)
	wantKind(t, try(w, state.SchedulerConfigSet, setConfig(0, "best")), structs.KindInvalid)
}

// preempting returns a request that lets jobs of all types displace others, or of none.
func preempting(all bool) *cluster.SchedulerConfigRequest {
	return &cluster.SchedulerConfigRequest{Config: cluster.SchedulerConfiguration{
		PreemptionConfig: cluster.PreemptionConfig{
			SystemSchedulerEnabled:   all,
			SysBatchSchedulerEnabled: all,
			BatchSchedulerEnabled:    all,
			ServiceSchedulerEnabled:  all,
		},
	}}
}

// Evaluations wait for capacity on any node, on one of several nodes, and for something else. More preemption
// unblocks those that wait for capacity, and less unblocks none.
func TestSchedulerConfigSet_UnblocksWhatWaitsForCapacity(t *testing.T) {
	w := newFixture(t)
	do(w, state.SchedulerConfigSet, preempting(false))
	waits := map[string][]string{
		"any":    {structs.WakeCapacity},
		"a":      {"csi-volume:default:v", structs.WakeNode("a")},
		"b":      {structs.WakeNode("b"), structs.WakeNode("c")},
		"d":      {structs.WakeNode("d"), structs.WakeNodes},
		"e":      {structs.WakeNode("e")},
		"plugin": {structs.WakePlugin("p")},
		"nodes":  {structs.WakeNodes},
	}
	for id, keys := range waits {
		do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{{
			ID: id, JobID: id, Status: structs.EvalBlocked, BlockedOn: keys, SnapshotIndex: w.Store.Index(),
		}}})
	}
	do(w, state.SchedulerConfigSet, preempting(false))
	if n := pendingOf(w.Store.Read()); n != 0 {
		t.Errorf("no more preemption unblocks %d evaluations", n)
	}
	do(w, state.SchedulerConfigSet, preempting(true))
	for id := range waits {
		want := structs.EvalPending
		if id == "plugin" || id == "nodes" {
			want = structs.EvalBlocked
		}
		if got := state.Eval(w.Store.Read(), id).Status; got != want {
			t.Errorf("%s, which waits for %v, is %s", id, waits[id], got)
		}
	}
}

// A lower priority of a job unblocks what waits for capacity, if jobs of any type displace others.
func TestJobRegister_OfALowerPriorityUnblocks(t *testing.T) {
	for name, preempts := range map[string]bool{"preemption": true, "no preemption": false} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			do(w, state.SchedulerConfigSet, preempting(preempts))
			register := func(priority int) {
				j := aJob("other", structs.JobService)
				j.Priority = priority
				do(w, state.JobRegister, &structs.JobRegisterRequest{Job: j})
			}
			register(50)
			do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{{
				ID: "e", JobID: "j", Status: structs.EvalBlocked, BlockedOn: []string{structs.WakeNode("n")},
				SnapshotIndex: w.Store.Index(),
			}}})
			register(60)
			if n := pendingOf(w.Store.Read()); n != 0 {
				t.Errorf("a higher priority unblocks %d evaluations", n)
			}
			register(40)
			if got := pendingOf(w.Store.Read()) == 1; got != preempts {
				t.Errorf("a lower priority unblocks: %t", got)
			}
		})
	}
}
