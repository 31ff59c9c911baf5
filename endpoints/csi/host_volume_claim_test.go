package csi_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// claim places an allocation of a job whose group g keeps a volume with the claim of an ID.
func (f *hostFixture) claim(job, id string, volume, node string) {
	f.t.Helper()
	r := &structs.VolumeRequest{Name: "d", Type: structs.VolumeTypeHost, Source: "data", Sticky: true}
	endpointstest.Must(f.Server, structs.JobRegister, &structs.JobRegisterRequest{Job: &structs.Job{
		ID: job,
		TaskGroups: []*structs.TaskGroup{{
			Name:    "g",
			Count:   1,
			Volumes: map[string]*structs.VolumeRequest{"d": r},
			Tasks:   []*structs.Task{{Name: "t", Driver: "exec", Config: map[string]any{"command": "/bin/true"}}},
		}},
	}})
	j := state.Job(f.Store.Read(), structs.DefaultNamespace, job)
	e := structs.NewEval(j, structs.TriggerJobRegister, 1)
	e.ID = structs.NewID()
	e.Status = structs.EvalComplete
	_, err := fsm.Propose(f.t.Context(), f.Raft, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: j.JobModifyIndex,
		Place: []*structs.Allocation{{
			ID:         "of-" + id,
			Namespace:  structs.DefaultNamespace,
			Name:       structs.AllocName(job, "g", 0),
			NodeID:     node,
			JobID:      job,
			TaskGroup:  "g",
			JobVersion: j.Version,
			Resources:  &structs.Resources{},
			CSIVolumes: []structs.CSIVolumeUse{storage.HostVolumeUse("d", r, volume, id)},
		}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestClaims_AreListedByWhatTheyAreOf(t *testing.T) {
	f := newHostFixture(t, "n1", "n2")
	for _, job := range []string{"a", "b"} {
		v := f.create(volume("data"))
		f.claim(job, "claim-"+job, v.ID, v.NodeID)
	}
	for want, req := range map[string]storage.ClaimListRequest{
		"claim-a claim-b ": {},
		"claim-a ":         {JobID: "a", TaskGroup: "g", VolumeName: "data"},
		"claim-b ":         {QueryOptions: structs.QueryOptions{Prefix: "claim-b"}},
		"":                 {VolumeName: "more"},
	} {
		got := ""
		for _, c := range endpointstest.Must(f.Server, storage.HostVolumeClaimList, &req).Claims {
			got += c.ID + " "
		}
		if got != want {
			t.Errorf("%+v: got %q, want %q", req, got, want)
		}
	}
	others := endpointstest.Must(
		f.Server, storage.HostVolumeClaimList, &storage.ClaimListRequest{TaskGroup: "h"}).Claims
	if len(others) > 0 {
		t.Errorf("another group has %+v", others)
	}

	endpointstest.Must(f.Server, storage.HostVolumeClaimDelete, &storage.ClaimDeleteRequest{ClaimID: "claim-a"})
	left := endpointstest.Must(f.Server, storage.HostVolumeClaimList, &storage.ClaimListRequest{}).Claims
	if len(left) != 1 || left[0].AllocID != "of-claim-b" {
		t.Errorf("after the deletion there are %+v", left)
	}
}
