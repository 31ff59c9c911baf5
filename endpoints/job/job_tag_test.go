package job_test

import (
	"slices"
	"testing"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/state"
	"berth/structs"
)

// newTagServer has the job "web" with the versions 0 to 2, whose priorities are 50, 51 and 52.
func newTagServer(t *testing.T) *endpointstest.Server {
	s := endpointstest.New(t, core.DefaultSettings())
	for n := range 3 {
		j := endpointstest.Job("web")
		j.Priority = 50 + n
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: j})
	}
	return s
}

func tagVersion(s *endpointstest.Server, version uint64, name string) *structs.JobTagResponse {
	return endpointstest.Must(s, structs.JobTagApply, &structs.JobTagRequest{
		JobID: "web", JobVersion: version, TagName: name, Description: "d",
	})
}

func TestApply_AnswersWithTheTag(t *testing.T) {
	s := newTagServer(t)
	answer := tagVersion(s, 1, "golden")
	stored := state.JobVersion(s.Store.Read(), structs.DefaultNamespace, "web", 1).VersionTag
	got := structs.JobVersionTag{
		Name: answer.Name, Description: answer.Description, TaggedTime: answer.TaggedTime,
	}
	if stored == nil || *stored != got || got.Name != "golden" || got.Description != "d" || got.TaggedTime == 0 {
		t.Errorf("the answer is %+v, the stored tag %+v", answer, stored)
	}
	written := s.Raft.Len()
	endpointstest.Rejected(s, structs.KindInvalid, structs.JobTagApply, &structs.JobTagRequest{JobID: "web"})
	if s.Raft.Len() != written {
		t.Error("a tag without a name is in the log")
	}
	endpointstest.Must(s, structs.JobTagRemove, &structs.JobUntagRequest{JobID: "web", TagName: "golden"})
	if state.JobVersion(s.Store.Read(), structs.DefaultNamespace, "web", 1).VersionTag != nil {
		t.Error("the version has the tag still")
	}
}

// The versions of a purged job, which its allocations keep, take no tags, and those that they had are gone.
func TestApply_IsNotForVersionsOfAPurgedJob(t *testing.T) {
	s := endpointstest.New(t, core.DefaultSettings())
	s.AddNode("n1", "")
	s.AddAlloc("a", "n1")
	job := endpointstest.Must(s, structs.AllocGet, &structs.AllocGetRequest{AllocID: "a"}).Alloc.JobID
	req := &structs.JobTagRequest{JobID: job, TagName: "golden"}
	endpointstest.Must(s, structs.JobTagApply, req)
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: job, Purge: true})
	old := state.JobVersion(s.Store.Read(), structs.DefaultNamespace, job, 0)
	if old == nil || old.VersionTag != nil {
		t.Fatalf("the version of the purged job is %+v, want one without a tag", old)
	}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: endpointstest.Job(job)})
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobTagApply, req)
}

// diffs lists the old priority of the difference of each version, "" for a difference without one.
func diffs(r *structs.JobVersionsResponse) (old []string) {
	for _, d := range r.Diffs {
		was := ""
		for _, f := range d.Fields {
			if f.Name == "Priority" && f.Type != structs.DiffNone {
				was = f.Old
			}
		}
		old = append(old, was)
	}
	return old
}

func TestVersions_ComparesWithATagOrANumber(t *testing.T) {
	s := newTagServer(t)
	tagVersion(s, 1, "golden")
	for name, c := range map[string]struct {
		req  structs.JobGetRequest
		want []string
	}{
		"none":           {structs.JobGetRequest{DiffTag: ""}, nil},
		"the one before": {structs.JobGetRequest{Diffs: true}, []string{"51", "50"}},
		"a tag":          {structs.JobGetRequest{Diffs: true, DiffTag: "golden"}, []string{"51", "", "51"}},
		"a number":       {structs.JobGetRequest{Diffs: true, DiffVersion: new(uint64(0))}, []string{"50", "50", ""}},
		"the newest":     {structs.JobGetRequest{Diffs: true, DiffVersion: new(uint64(2))}, []string{"", "52", "52"}},
	} {
		c.req.JobID = "web"
		if got := diffs(endpointstest.Must(s, structs.JobVersions, &c.req)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		req  structs.JobGetRequest
		kind structs.Kind
	}{
		"an unknown tag":    {structs.JobGetRequest{Diffs: true, DiffTag: "other"}, structs.KindNotFound},
		"an unknown number": {structs.JobGetRequest{Diffs: true, DiffVersion: new(uint64(9))}, structs.KindNotFound},
		"both": {structs.JobGetRequest{Diffs: true, DiffTag: "golden", DiffVersion: new(uint64(1))},
			structs.KindInvalid},
	} {
		c.req.JobID = "web"
		t.Log(name)
		endpointstest.Rejected(s, c.kind, structs.JobVersions, &c.req)
	}
}
