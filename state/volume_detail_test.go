package state_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

func TestVolumeDetail_ShowsClaimsAndAttachments(t *testing.T) {
	w := threeNodes(t, true)
	w.MustPut(func(v *structs.CSIVolume) { v.Secrets = structs.Secrets{"k": "v"} })
	w.Claim(aClaim("v", "a1", wr, mnsw), aClaim("v", "a2", rd, mnsw), aClaim("v", "a3", wr, mnsw))
	do(w, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:       "v",
		NodeID:         "n1",
		Op:             "attach",
		PublishContext: structs.Secrets{"p": "x"},
		WriteOptions:   w.Now(),
	})
	tx := w.Store.Read()
	d := state.VolumeDetail(tx, csi.Volume(tx, "default", "v"))
	if len(d.WriteAllocs) != 1 || len(d.ReadAllocs) != 1 ||
		len(d.Allocations) != 2 || len(d.Claims) != 3 ||
		len(d.Attachments) != 2 {
		t.Errorf("the detail of the volume is %+v", d)
	}
	if d.AccessMode != mnsw || d.AttachmentMode != structs.CSIFileSystem ||
		!d.Schedulable || d.Blocked != "" ||
		d.ProviderVersion != "1" || d.NodesHealthy != 3 {
		t.Errorf("the detail of the volume is %+v", d)
	}
	if d.Claims[2].AllocID != "a3" ||
		!strings.Contains(d.Claims[2].Reason, "allocation a1") {
		t.Errorf("the third claim is %+v", d.Claims[2])
	}
	if d.Secrets != nil || d.Attachments[0].PublishContext != nil ||
		csi.Volume(tx, "default", "v").Secrets == nil {
		t.Error("the response has secrets, or the row has none")
	}
	s := csi.VolumeStub(tx, csi.Volume(tx, "default", "v"))
	got := fmt.Sprint(s.CurrentReaders, s.CurrentWriters, s.Waiting, s.Schedulable, s.ControllersHealthy)
	if got != "1 1 1 true 3" {
		t.Errorf("the stub has %s, want 1 1 1 true 3", got)
	}
	w.Status(structs.NodeDown, "n1", "n2", "n3")
	tx = w.Store.Read()
	if d := state.VolumeDetail(tx, csi.Volume(tx, "default", "v")); d.Schedulable ||
		!strings.Contains(d.Blocked, "no node instance of plugin p is healthy") {
		t.Errorf("schedulable %v, %q", d.Schedulable, d.Blocked)
	}
}

func TestVolumeDetail_NamesTheJobsThatWaitWithoutAnAllocation(t *testing.T) {
	w := newFixture(t)
	w.Volume("v", "p")
	w.Job(aJob("j", structs.JobService))
	w.Blocked("j", structs.WakeVolume("default", "v"))
	tx := w.Store.Read()
	got := state.VolumeDetail(tx, csi.Volume(tx, "default", "v")).WaitingJobs
	if !slices.Equal(got, []string{"j"}) {
		t.Errorf("the jobs %q wait, want j", got)
	}
}

func TestVolumeDetail_NamesTheFirstJobsOfMany(t *testing.T) {
	w := newFixture(t)
	w.Volume("v", "p")
	var want []string
	for n := range structs.MaxWaitingJobs + 1 {
		id := fmt.Sprintf("j%03d", n)
		w.Job(aJob(id, structs.JobService))
		w.Blocked(id, structs.WakeVolume("default", "v"))
		want = append(want, id)
	}
	tx := w.Store.Read()
	got := state.VolumeDetail(tx, csi.Volume(tx, "default", "v")).WaitingJobs
	if !slices.Equal(got, want[:structs.MaxWaitingJobs]) {
		t.Errorf("%d jobs wait, want the first %d: %q", len(got), structs.MaxWaitingJobs, got)
	}
}

// TestVolumeDetail_ReadsTheFirstEvaluationsOfMany has many evaluations that were unblocked and are not
// processed yet, before one that is blocked.
func TestVolumeDetail_ReadsTheFirstEvaluationsOfMany(t *testing.T) {
	w := newFixture(t)
	w.Volume("v", "p")
	w.Job(aJob("j", structs.JobService))
	key := structs.WakeVolume("default", "v")
	w.Blocked("j", key)
	unblocked := &structs.EvalUpdateRequest{WriteOptions: w.Now()}
	for n := range 10 * structs.MaxWaitingJobs {
		unblocked.Evals = append(unblocked.Evals, &structs.Evaluation{
			ID:        fmt.Sprintf("a%04d", n),
			JobID:     fmt.Sprint("other", n),
			Status:    structs.EvalPending,
			BlockedOn: []string{key},
		})
	}
	do(w, state.EvalUpdate, unblocked)
	tx := w.Store.Read()
	got := state.VolumeDetail(tx, csi.Volume(tx, "default", "v")).WaitingJobs
	if len(got) != 0 {
		t.Errorf("the jobs %q wait, want none of the first %d", got, len(unblocked.Evals))
	}
}
