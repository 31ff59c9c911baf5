package job_test

import (
	"testing"

	"berth/structs"
	"berth/structs/cluster"
)

func TestSchedulerConfig_IsReplacedOnlyInTheVersionThatWasRead(t *testing.T) {
	s := newServer(t)
	read := func() *cluster.SchedulerConfiguration {
		return must(s, cluster.SchedulerConfigGet, &structs.QueryRequest{}).SchedulerConfig
	}
	set := func(c cluster.SchedulerConfiguration, cas bool) bool {
		return must(s, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: c, CAS: cas}).Updated
	}
	first := *read()
	if first != cluster.DefaultSchedulerConfiguration() {
		t.Errorf("got %+v, want the default", first)
	}
	next := first
	next.SchedulerAlgorithm = cluster.AlgorithmSpread
	if !set(next, true) || set(next, true) {
		t.Error("want the first of two changes of one version, and not the second")
	}
	if got := read(); got.SchedulerAlgorithm != cluster.AlgorithmSpread {
		t.Errorf("got %+v", got)
	}
	if !set(first, false) || read().SchedulerAlgorithm != cluster.AlgorithmBinpack {
		t.Error("a change without a condition was not made")
	}
	first.SchedulerAlgorithm = "best"
	entries := s.Raft.Len()
	rejected(s, structs.KindInvalid, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: first})
	if s.Raft.Len() != entries {
		t.Error("an invalid configuration reached the log")
	}
}

func TestJobRegister_IsRejectedByTheConfiguration(t *testing.T) {
	s := newServer(t)
	must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: testJob("old")})
	s.addJob("enc", parameterized)
	config := cluster.DefaultSchedulerConfiguration()
	config.RejectJobRegistration = true
	must(s, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
	for _, id := range []string{"old", "new"} {
		rejected(s, structs.KindDenied, structs.JobRegister, &structs.JobRegisterRequest{Job: testJob(id)})
	}
	rejected(s, structs.KindDenied, structs.JobDispatch, &structs.JobDispatchRequest{
		JobID: "enc",
		Meta:  map[string]string{"who": "me"},
	})
	must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "old"})
	config.RejectJobRegistration = false
	must(s, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
	must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: testJob("new")})
}
