package job_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/cluster"
)

func TestSchedulerConfig_IsReplacedOnlyInTheVersionThatWasRead(t *testing.T) {
	s := endpointstest.New(t)
	read := func() *cluster.SchedulerConfiguration {
		return endpointstest.Must(s, cluster.SchedulerConfigGet, &structs.QueryRequest{}).SchedulerConfig
	}
	set := func(c cluster.SchedulerConfiguration, cas bool) bool {
		return endpointstest.Must(s, cluster.SchedulerConfigSet,
			&cluster.SchedulerConfigRequest{Config: c, CAS: cas}).Updated
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
	endpointstest.Rejected(s, structs.KindInvalid, cluster.SchedulerConfigSet,
		&cluster.SchedulerConfigRequest{Config: first})
	if s.Raft.Len() != entries {
		t.Error("an invalid configuration reached the log")
	}
}

func TestJobRegister_IsRejectedByTheConfiguration(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: endpointstest.Job("old")})
	addJob(s, "enc", parameterized)
	config := cluster.DefaultSchedulerConfiguration()
	config.RejectJobRegistration = true
	endpointstest.Must(s, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
	for _, id := range []string{"old", "new"} {
		endpointstest.Rejected(s, structs.KindDenied, structs.JobRegister,
			&structs.JobRegisterRequest{Job: endpointstest.Job(id)})
	}
	endpointstest.Rejected(s, structs.KindDenied, structs.JobDispatch, &structs.JobDispatchRequest{
		JobID: "enc",
		Meta:  map[string]string{"who": "me"},
	})
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "old"})
	config.RejectJobRegistration = false
	endpointstest.Must(s, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: endpointstest.Job("new")})
}
