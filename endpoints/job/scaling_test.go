package job_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
)

// scaledBetween returns a job whose group has a scaling policy.
func scaledBetween(id string, least, most int64) *structs.Job {
	j := endpointstest.Job(id)
	j.TaskGroups[0].Volumes = nil
	j.TaskGroups[0].Count = int(least)
	j.TaskGroups[0].Scaling = &structs.ScalingPolicy{
		Min:    &least,
		Max:    &most,
		Policy: map[string]any{"cooldown": "13m"},
	}
	return j
}

func policiesOf(
	s *endpointstest.Server, edit ...func(*structs.ScalingPolicyListRequest),
) []*structs.ScalingPolicyListStub {
	s.T.Helper()
	req := &structs.ScalingPolicyListRequest{}
	for _, e := range edit {
		e(req)
	}
	return endpointstest.Must(s, structs.ScalingPolicyList, req).Policies
}

func TestScalingPolicies_AreThoseOfJobsThatAreNotStopped(t *testing.T) {
	s := endpointstest.New(t)
	for _, id := range []string{"a", "b", "plain"} {
		j := scaledBetween(id, 1, 10)
		if id == "plain" {
			j.TaskGroups[0].Scaling = nil
		}
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: j})
	}
	all := policiesOf(s)
	if len(all) != 2 || all[0].ID >= all[1].ID || !all[0].Enabled || all[0].Type != structs.ScalingHorizontal {
		t.Fatalf("the policies are %+v", all)
	}
	ofA := policiesOf(s, func(r *structs.ScalingPolicyListRequest) { r.Job = "a" })
	if len(ofA) != 1 || ofA[0].Target["Job"] != "a" || ofA[0].Target["Group"] != "g" ||
		ofA[0].Target["Namespace"] != "default" {
		t.Fatalf("the policies of a are %+v", ofA)
	}
	for name, edit := range map[string]func(*structs.ScalingPolicyListRequest){
		"prefix":    func(r *structs.ScalingPolicyListRequest) { r.Prefix = all[1].ID[:8] },
		"next page": func(r *structs.ScalingPolicyListRequest) { r.PerPage = 1; r.Reverse = true },
	} {
		if got := policiesOf(s, edit); len(got) != 1 || got[0].ID != all[1].ID {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	none := policiesOf(s, func(r *structs.ScalingPolicyListRequest) { r.Type = "vertical_cpu" })
	other := policiesOf(s, func(r *structs.ScalingPolicyListRequest) { r.Namespace = "other" })
	if len(none)+len(other) != 0 {
		t.Errorf("got %+v and %+v", none, other)
	}
	got := endpointstest.Must(s, structs.ScalingPolicyGet,
		&structs.ScalingPolicyGetRequest{ID: ofA[0].ID}).Policy
	if *got.Min != 1 || *got.Max != 10 || !*got.Enabled || got.Policy["cooldown"] != "13m" ||
		got.Namespace != "default" || got.ModifyIndex == 0 {
		t.Errorf("the policy is %+v", got)
	}
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "a"})
	endpointstest.Rejected(s, structs.KindNotFound, structs.ScalingPolicyGet,
		&structs.ScalingPolicyGetRequest{ID: ofA[0].ID})
	if left := policiesOf(s); len(left) != 1 || left[0].Target["Job"] != "b" {
		t.Errorf("after the stop of a there are %+v", left)
	}
}

// The policy keeps its ID in all versions of the job.
func TestScalingPolicies_HoldTheCount(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: scaledBetween("web", 2, 4)})
	id := policiesOf(s)[0].ID
	scale := func(count int64) *structs.JobScaleRequest {
		return &structs.JobScaleRequest{JobID: "web", Group: "g", Count: &count}
	}
	for count, want := range map[int64]string{
		1: "count 1 is below min 2 of the scaling policy",
		5: "count 5 is above max 4 of the scaling policy",
	} {
		err := endpointstest.Rejected(s, structs.KindInvalid, structs.JobScale, scale(count))
		if !strings.Contains(err.Error(), want) {
			t.Errorf("count %d: %v", count, err)
		}
	}
	endpointstest.Must(s, structs.JobScale, scale(4))
	low := scaledBetween("web", 2, 4)
	low.TaskGroups[0].Count = 1
	endpointstest.Rejected(s, structs.KindInvalid, structs.JobRegister, &structs.JobRegisterRequest{Job: low})

	preserved := func(least, most int64) int {
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{
			Job:            scaledBetween("web", least, most),
			PreserveCounts: true,
		})
		return endpointstest.Must(s, structs.JobGet, &structs.JobGetRequest{JobID: "web"}).Job.TaskGroups[0].Count
	}
	if n := preserved(2, 4); n != 4 {
		t.Errorf("the preserved count is %d", n)
	}
	if n := preserved(1, 3); n != 3 {
		t.Errorf("the preserved count is %d, above max 3", n)
	}
	if got := policiesOf(s); len(got) != 1 || got[0].ID != id {
		t.Errorf("the policy is %+v, before it had the ID %s", got, id)
	}
}
