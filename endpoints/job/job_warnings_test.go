package job_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

func TestJobs_WarnOfAMemoryMaxWithoutEffect(t *testing.T) {
	s := endpointstest.New(t)
	job := func(most int) *structs.Job {
		j := endpointstest.Job("j")
		j.TaskGroups[0].Volumes = nil
		j.TaskGroups[0].Tasks[0].Resources = &structs.Resources{CPU: 10, MemoryMB: 20, MemoryMaxMB: most}
		return j
	}
	warnings := func(most int) []string {
		registered := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job(most)})
		planned := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job(most)})
		checked := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: job(most)})
		return []string{registered.Warnings, planned.Warnings, checked.Warnings}
	}
	want := func(warned bool, most int) {
		t.Helper()
		for i, w := range warnings(most) {
			if strings.Contains(w, `group "g": memory_max has no effect`) != warned {
				t.Errorf("%d: with a memory_max of %d the warnings are %q", i, most, w)
			}
		}
	}
	want(true, 40)
	want(false, 0)
	config := cluster.DefaultSchedulerConfiguration()
	config.MemoryOversubscriptionEnabled = true
	endpointstest.Must(s, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
	want(false, 40)
}

func TestJobs_WarnOfAnIdentityThatNobodySigns(t *testing.T) {
	s := endpointstest.New(t)
	j := endpointstest.Job("j")
	j.TaskGroups[0].Volumes = nil
	j.TaskGroups[0].Tasks[0].Identity = &structs.WorkloadIdentity{Name: structs.DefaultIdentity, Env: true}
	registered := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: j})
	planned := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: j})
	for _, w := range []string{registered.Warnings, planned.Warnings} {
		if !strings.Contains(w, "no root key to sign with") {
			t.Errorf("the warnings are %q", w)
		}
	}
}

// A job beyond the quota of its namespace is registered, and the answers tell how much of it has no place.
func TestJobs_WarnOfAQuotaWithoutPlace(t *testing.T) {
	s := endpointstest.New(t)
	bounded := func(b quota.Bounds) {
		endpointstest.Must(s, quota.SpecPut, &quota.SpecPutRequest{Quota: &quota.Spec{
			Name:   "team",
			Limits: []*quota.Limit{{Region: "global", RegionLimit: &b}},
		}})
	}
	bounded(quota.Bounds{MemoryMB: 50})
	endpointstest.Must(s, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{Name: structs.DefaultNamespace, Quota: "team"},
	})

	want := func(text string, edits ...func(*structs.Job)) {
		t.Helper()
		j := endpointstest.Job("j")
		j.TaskGroups[0].Volumes = nil
		j.TaskGroups[0].Count = 3
		j.TaskGroups[0].Tasks[0].Resources = &structs.Resources{CPU: 10, MemoryMB: 20}
		for _, edit := range edits {
			edit(j)
		}
		planned := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: j})
		registered := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: j})
		for call, w := range map[string]string{"plan": planned.Warnings, "registration": registered.Warnings} {
			if text == "" && strings.Contains(w, "quota") || !strings.Contains(w, text) {
				t.Errorf("the warnings of the %s are %q, want %q", call, w, text)
			}
		}
	}
	want("quota team: memory: 0 MiB used, 60 MiB asked, 50 MiB allowed; what has no place waits for it")
	want("", func(j *structs.Job) { j.TaskGroups[0].Count = 2 })
	want("60 MiB asked", func(j *structs.Job) { j.TaskGroups[0].Count = 3 })
	want("", func(j *structs.Job) { j.Stop = true })
	bounded(quota.Bounds{MemoryMaxMB: 70})
	want("quota team: memory_max: 0 MiB used, 75 MiB asked, 70 MiB allowed", func(j *structs.Job) {
		j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = 25
	})
	bounded(quota.Bounds{})
	want("")
}
