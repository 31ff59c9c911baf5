package job_test

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/admin"
	"berth/structs/inquiry"
)

func TestJobs_WarnOfAMemoryMaxWithoutEffect(t *testing.T) {
	s := newServer(t)
	job := func(most int) *structs.Job {
		j := testJob("j")
		j.TaskGroups[0].Volumes = nil
		j.TaskGroups[0].Tasks[0].Resources = &structs.Resources{CPU: 10, MemoryMB: 20, MemoryMaxMB: most}
		return j
	}
	warnings := func(most int) []string {
		registered := must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job(most)})
		planned := must(s, inquiry.JobPlan, &inquiry.JobPlanRequest{Job: job(most)})
		checked := must(s, inquiry.JobValidate, &inquiry.JobValidateRequest{Job: job(most)})
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
	config := admin.DefaultSchedulerConfiguration()
	config.MemoryOversubscriptionEnabled = true
	must(s, admin.SchedulerConfigSet, &admin.SchedulerConfigRequest{Config: config})
	want(false, 40)
}

func TestJobs_WarnOfAnIdentityThatNobodySigns(t *testing.T) {
	s := newServer(t)
	j := testJob("j")
	j.TaskGroups[0].Volumes = nil
	j.TaskGroups[0].Tasks[0].Identity = &structs.WorkloadIdentity{Name: structs.DefaultIdentity, Env: true}
	registered := must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: j})
	planned := must(s, inquiry.JobPlan, &inquiry.JobPlanRequest{Job: j})
	for _, w := range []string{registered.Warnings, planned.Warnings} {
		if !strings.Contains(w, "no root key to sign with") {
			t.Errorf("the warnings are %q", w)
		}
	}
}
