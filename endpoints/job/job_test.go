package job_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

func TestJobRegister_MakesEvaluation(t *testing.T) {
	s := endpointstest.New(t)
	given := endpointstest.Job("j")
	got := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: given})
	e := state.Eval(s.Store.Read(), got.EvalID)
	if e == nil || e.JobID != "j" || e.Status != structs.EvalPending ||
		e.TriggeredBy != structs.TriggerJobRegister || e.JobModifyIndex != got.JobModifyIndex {
		t.Errorf("evaluation %+v", e)
	}
	if !strings.Contains(got.Warnings, `no volume "v"`) {
		t.Errorf("got warnings %q, want the missing volume in them", got.Warnings)
	}
	if given.Namespace != "" || given.TaskGroups[0].RestartPolicy != nil {
		t.Error("the caller's job was changed")
	}
	job := endpointstest.Must(s, structs.JobGet, &structs.JobGetRequest{JobID: "j"}).Job
	if job.Type != structs.JobService || job.TaskGroups[0].RestartPolicy == nil || job.SubmitTime == 0 {
		t.Errorf("the defaults are not filled in: %+v", job)
	}
	again := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: given})
	if again.JobModifyIndex != got.JobModifyIndex {
		t.Errorf("an unchanged registration made a new version: index %d, was %d", again.JobModifyIndex,
			got.JobModifyIndex)
	}
	given.TaskGroups[0].Count = 2
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: given})
	v := endpointstest.Must(s, structs.JobVersions, &structs.JobGetRequest{JobID: "j"}).Versions
	if len(v) != 2 || v[0].Version != 1 {
		t.Errorf("got %d versions, want 2, the newest first", len(v))
	}
	if got := endpointstest.Must(s, structs.JobSummaryGet,
		&structs.JobGetRequest{JobID: "j"}).JobSummary; got.JobID != "j" {
		t.Errorf("summary %+v", got)
	}
	if got := endpointstest.Must(s, structs.JobEvaluations,
		&structs.JobGetRequest{JobID: "j"}).Evaluations; len(got) != 3 {
		t.Errorf("%d evaluations, want 3", len(got))
	}
	err := endpointstest.Rejected(s, structs.KindConflict, structs.JobRegister, &structs.JobRegisterRequest{
		Job:            given,
		EnforceIndex:   true,
		JobModifyIndex: 1,
	})
	endpointstest.WantText(t, err, `Enforcing job modify index 1: job "j" has changed`) // clients of the dialect know the text
}

// The versions of a purged job, which its allocations keep, are not those of a new job with its ID.
func TestJobVersions_OmitsThoseOfAPurgedJob(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "")
	s.AddAlloc("a", "n1")
	job := endpointstest.Must(s, structs.AllocGet, &structs.AllocGetRequest{AllocID: "a"}).Alloc.JobID
	endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{
		Job:        jobRow(s, job),
		Submission: &structs.JobSubmission{Source: "job {}", Format: structs.FormatHCL2},
	})
	source := &structs.JobSubmissionRequest{JobID: job}
	endpointstest.Must(s, structs.JobSubmissionGet, source)
	purge := &structs.JobDeregisterRequest{JobID: job, Purge: true}
	endpointstest.Must(s, structs.JobDeregister, purge)
	get := &structs.JobGetRequest{JobID: job}
	if v := endpointstest.Must(s, structs.JobVersions, get).Versions; len(v) != 1 {
		t.Errorf("while the allocation of the purged job has it, %d versions are shown", len(v))
	}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: endpointstest.Job(job)})
	v := endpointstest.Must(s, structs.JobVersions, get).Versions
	if len(v) != 1 || v[0].Version != 1 {
		t.Errorf("the new job has %d versions, the newest is %d", len(v), v[0].Version)
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobSubmissionGet, source)
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobRevert, &structs.JobRevertRequest{JobID: job})
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobStable,
		&structs.JobStableRequest{JobID: job, Stable: true})
}

func TestJobDeregister_ForgetsStableVersionsOfAPurgedJob(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "")
	s.AddAlloc("a", "n1")
	job := endpointstest.Must(s, structs.AllocGet, &structs.AllocGetRequest{AllocID: "a"}).Alloc.JobID
	endpointstest.Must(s, structs.JobStable, &structs.JobStableRequest{JobID: job, Stable: true})
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: job, Purge: true})
	if v := state.JobVersion(s.Store.Read(), structs.DefaultNamespace, job, 0); v.Stable {
		t.Error("the version of the purged job is stable still")
	}
}

func TestJobRegister_WarnsOfTheFirstMissingVolumes(t *testing.T) {
	s := endpointstest.New(t)
	job := endpointstest.Job("j")
	volumes := job.TaskGroups[0].Volumes
	for i := range 3 * structs.MaxFaults {
		v := *volumes["data"]
		v.Source = fmt.Sprintf("v%03d", i)
		volumes[fmt.Sprintf("alias%03d", i)] = &v
	}
	volumes["data"] = &structs.VolumeRequest{Type: structs.VolumeTypeHost, Source: "a"} // of the node
	got := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job}).Warnings
	lines := strings.Split(got, "\n")
	if len(lines) != structs.MaxFaults+1 || !strings.Contains(lines[0], `"v000"`) ||
		lines[len(lines)-1] != "and 40 more" {
		t.Errorf("%d lines, the first %q, the last %q", len(lines), lines[0], lines[len(lines)-1])
	}
}

func TestJobRegister_WarnsOfPartsWithoutEffect(t *testing.T) {
	s := endpointstest.New(t)
	job := endpointstest.Job("j")
	job.TaskGroups[0].Tasks[0].Resources = &structs.Resources{DiskMB: 64}
	const want = `resources: disk 64 has no effect`
	checked := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: job})
	if !strings.Contains(checked.Warnings, want) || checked.Error != "" {
		t.Errorf("the check: got %q, %q, want %s", checked.Warnings, checked.Error, want)
	}
	registered := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	if !strings.Contains(registered.Warnings, want) {
		t.Errorf("the registration: got %q, want %s", registered.Warnings, want)
	}
	stored := endpointstest.Must(s, structs.JobGet, &structs.JobGetRequest{JobID: "j"}).Job
	if disk := stored.TaskGroups[0].Tasks[0].Resources.DiskMB; disk != 0 {
		t.Errorf("the stored job has disk %d", disk)
	}
}

func TestJobRegister_RejectsBadJobs(t *testing.T) {
	s := endpointstest.New(t)
	otherRegion := endpointstest.Job("j")
	otherRegion.Region = "mars"
	for name, job := range map[string]*structs.Job{
		"none":           nil,
		"no ID":          endpointstest.Job(""),
		"no groups":      {ID: "j"},
		"another region": otherRegion,
	} {
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			endpointstest.Rejected(s, structs.KindInvalid, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
		})
	}
	if n := s.Raft.Len(); n != 0 {
		t.Errorf("rejected jobs made %d log entries", n)
	}
}

// TestJobRegister_BoundsTheBytesOfAJob uses a config: it has no bound but that of the job.
func TestJobRegister_BoundsTheBytesOfAJob(t *testing.T) {
	s := endpointstest.New(t)
	sized := func(n int) *structs.JobRegisterRequest {
		job := endpointstest.Job("j")
		job.TaskGroups[0].Tasks[0].Config["k"] = strings.Repeat("x", n)
		return &structs.JobRegisterRequest{Job: job}
	}
	err := endpointstest.Rejected(s, structs.KindInvalid, structs.JobRegister, sized(structs.MaxJobBytes))
	endpointstest.WantText(t, err, "bytes; at most 4194304 are allowed")
	if n := s.Raft.Len(); n != 0 {
		t.Errorf("a rejected job made %d log entries", n)
	}
	endpointstest.Must(s, structs.JobRegister,
		sized(structs.MaxJobBytes-16<<10)) // the rest of the job is smaller
}

func TestJob_StopsAndEvaluates(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	stop := endpointstest.Must(s, structs.AllocStop, &structs.AllocStopRequest{AllocID: "a1"})
	e := endpointstest.Must(s, structs.EvalGet, &structs.EvalGetRequest{EvalID: stop.EvalID}).Eval
	if e.TriggeredBy != structs.TriggerAllocStop {
		t.Errorf("evaluation %+v", e)
	}
	if got := endpointstest.Must(s, structs.JobEvaluate,
		&structs.JobEvaluateRequest{JobID: "job-a1"}); got.EvalID == "" {
		t.Errorf("got %+v", got)
	}
	got := endpointstest.Must(s, structs.JobAllocations, &structs.JobGetRequest{JobID: "job-a1"}).Allocations
	if len(got) != 1 {
		t.Errorf("%d allocations", len(got))
	}
	eval := state.Alloc(s.Store.Read(), "a1").EvalID
	if got := endpointstest.Must(s, structs.EvalAllocs,
		&structs.EvalGetRequest{EvalID: eval}).Allocations; len(got) != 1 {
		t.Errorf("%d allocations of the evaluation", len(got))
	}
	down := endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "job-a1"})
	job := state.Job(s.Store.Read(), "default", "job-a1")
	if !job.Stop || state.Eval(s.Store.Read(), down.EvalID) == nil {
		t.Errorf("job %+v", job)
	}
	for _, err := range []error{
		endpointstest.Rejected(s, structs.KindNotFound, structs.JobGet, &structs.JobGetRequest{JobID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.JobVersions, &structs.JobGetRequest{JobID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.JobSummaryGet, &structs.JobGetRequest{JobID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.JobEvaluate,
			&structs.JobEvaluateRequest{JobID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.AllocGet, &structs.AllocGetRequest{AllocID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.AllocStop, &structs.AllocStopRequest{AllocID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.EvalGet, &structs.EvalGetRequest{EvalID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.NodeGet, &structs.NodeGetRequest{NodeID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.NodeAllocs, &structs.NodeGetRequest{NodeID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.NodeEvaluate,
			&structs.NodeGetWriteRequest{NodeID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.NodeEligibility, &structs.NodeEligibilityRequest{
			NodeID:      "x",
			Eligibility: structs.NodeEligible,
		}),
	} {
		if !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("got error %q, want the ID in it", err)
		}
	}
}

// TestJobRegister_RejectsAConfigThatItsLogEntryCannotHold includes a job that is readable alone and not one
// level further down.
func TestJobRegister_RejectsAConfigThatItsLogEntryCannotHold(t *testing.T) {
	s := endpointstest.New(t)
	for levels := 1000; levels < 1030; levels++ {
		var v any = "x"
		for range levels - 1 {
			v = []any{v}
		}
		job := endpointstest.Job("deep")
		job.TaskGroups[0].Tasks[0].Config = map[string]any{"k": v}
		_, err := rpc.Call(t.Context(), s.RPC, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%d levels: %v", levels, err)
		}
	}
}

func TestJobRegister_RecordsEachJobOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, held := endpointstest.NewHolding(t, core.DefaultSettings())
		const jobs, each = 20, 3
		var all sync.WaitGroup
		for n := range jobs * each {
			all.Go(func() {
				req := &structs.JobRegisterRequest{Job: endpointstest.Job(fmt.Sprint("j", n%jobs))}
				if _, err := rpc.Call(t.Context(), s.RPC, structs.JobRegister, req); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := held.Arrived(); n != jobs {
			t.Errorf("%d entries are in flight for %d jobs", n, jobs)
		}
		close(held.Free)
		all.Wait()
	})
}

// A registration that keeps the counts is rejected if the job may not have them.
func TestJobRegister_ChecksTheCountsThatItKeeps(t *testing.T) {
	s := endpointstest.New(t)
	addJob(s, "web", func(j *structs.Job) { j.TaskGroups[0].Count = 3 })
	next := jobRow(s, "web").Copy()
	group := *next.TaskGroups[0]
	group.Count = 1
	group.Volumes = map[string]*structs.VolumeRequest{"v": {
		Name:           "v",
		Type:           structs.VolumeTypeCSI,
		Source:         "vol",
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}}
	next.TaskGroups[0] = &group
	req := &structs.JobRegisterRequest{Job: next, PreserveCounts: true}
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInvalid, structs.JobRegister,
		req), "count is 3")
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: next})
}
