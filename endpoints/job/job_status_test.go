package job_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	"berth/structs"
)

func newStatusServer(t testing.TB) *endpointstest.Server {
	return endpointstest.New(t, core.DefaultSettings())
}

func registerJob(s *endpointstest.Server, id string, edits ...func(*structs.Job)) {
	s.T.Helper()
	j := endpointstest.Job(id)
	j.Namespace = structs.DefaultNamespace
	for _, edit := range edits {
		edit(j)
	}
	endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: j})
}

func listStatuses(s *endpointstest.Server, req structs.JobStatusesRequest) *structs.JobStatusesResponse {
	s.T.Helper()
	return endpointstest.Must(s, structs.JobStatuses, &req)
}

func idsOf(resp *structs.JobStatusesResponse) string {
	var all []string
	for _, j := range resp.Jobs {
		all = append(all, j.ID)
	}
	return strings.Join(all, " ")
}

func statusQuery(q structs.QueryOptions) structs.JobStatusesRequest {
	return structs.JobStatusesRequest{QueryOptions: q}
}

// withPriority makes another version of a job.
func withPriority(priority int) func(*structs.Job) {
	return func(j *structs.Job) { j.Priority = priority }
}

func TestList_HasTheLastChangedJobFirst(t *testing.T) {
	s := newStatusServer(t)
	for _, id := range []string{"b", "c", "a", "d"} {
		registerJob(s, id)
	}
	registerJob(s, "c", withPriority(70))
	for want, q := range map[string]structs.QueryOptions{
		"c d a b": {},
		"b a d c": {Reverse: true},
		"c d":     {PerPage: 2},
		"b a d":   {PerPage: 3, Reverse: true},
		"c":       {Filter: `Priority == 70`},
		"d a b":   {Filter: `Priority == 50 and Type == "service"`},
		"d a":     {Filter: `Priority == 50`, PerPage: 2},
		"":        {Prefix: "x"},
	} {
		if got := idsOf(listStatuses(s, statusQuery(q))); got != want {
			t.Errorf("%+v: got %q, want %q", q, got, want)
		}
	}

	// The pages have each job once.
	for _, reverse := range []bool{false, true} {
		var pages []string
		q := structs.QueryOptions{PerPage: 3, Reverse: reverse}
		for range 3 {
			resp := listStatuses(s, statusQuery(q))
			pages = append(pages, idsOf(resp))
			q.NextToken = resp.NextToken
			if q.NextToken == "" {
				break
			}
		}
		want := []string{"c d a", "b"}
		if reverse {
			want = []string{"b a d", "c"}
		}
		if !slices.Equal(pages, want) {
			t.Errorf("the pages are %q, want %q", pages, want)
		}
	}
	for _, q := range []structs.QueryOptions{
		{Sort: structs.SortCreate}, {NextToken: "none of ours"}, {NextToken: "MQ"}, {Filter: "Nothing == 1"},
	} {
		bad := statusQuery(q)
		endpointstest.Rejected(s, structs.KindInvalid, structs.JobStatuses, &bad)
	}
}

func TestList_HasTheNamedJobsAlone(t *testing.T) {
	s := newStatusServer(t)
	s.AddNamespace("other")
	registerJob(s, "a")
	registerJob(s, "b")
	registerJob(s, "a", func(j *structs.Job) { j.Namespace = "other" })
	named := func(ns string, names ...structs.JobName) string {
		return idsOf(listStatuses(s, structs.JobStatusesRequest{
			Jobs: names, QueryOptions: structs.QueryOptions{Namespace: ns},
		}))
	}
	a := structs.JobName{ID: "a"}
	inOther := structs.JobName{ID: "a", Namespace: "other"}
	inDefault := structs.JobName{ID: "a", Namespace: structs.DefaultNamespace}
	for name, c := range map[string]struct{ got, want string }{
		"one":                    {named("", a), "a"},
		"a job that is none":     {named("", structs.JobName{ID: "x"}, a), "a"},
		"one twice":              {named("", a, inDefault), "a"},
		"those of all":           {named("*", inOther, inDefault), "a a"},
		"not of the request":     {named("", inOther), ""},
		"all, without a name":    {named(""), "b a"},
		"all of a namespace":     {named("other"), "a"},
		"all of every namespace": {named("*"), "a b a"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
	many := structs.JobStatusesRequest{Jobs: make([]structs.JobName, structs.MaxJobStatuses+1)}
	endpointstest.Rejected(s, structs.KindInvalid, structs.JobStatuses, &many)
}

func TestList_LeavesChildrenOutUnlessAsked(t *testing.T) {
	s := newStatusServer(t)
	parent := endpointstest.Job("batch")
	parent.Type = structs.JobBatch
	parent.ParameterizedJob = &structs.ParameterizedJobConfig{}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: parent})
	dispatch := &structs.JobDispatchRequest{JobID: "batch"}
	child := endpointstest.Must(s, structs.JobDispatch, dispatch).DispatchedJobID
	if got := idsOf(listStatuses(s, statusQuery(structs.QueryOptions{}))); got != "batch" {
		t.Errorf("got %q, want the parent alone", got)
	}
	all := listStatuses(s, structs.JobStatusesRequest{IncludeChildren: true})
	if got := idsOf(all); got != child+" batch" {
		t.Fatalf("got %q, want the child too", got)
	}
	if all.Jobs[0].ParentID != "batch" || all.Jobs[0].ChildStatuses != nil {
		t.Errorf("the child is %+v", all.Jobs[0])
	}
	if !slices.Equal(all.Jobs[1].ChildStatuses, []string{all.Jobs[0].Status}) || all.Jobs[0].Status == "" {
		t.Errorf("the parent has the children %q, want one that is %q",
			all.Jobs[1].ChildStatuses, all.Jobs[0].Status)
	}
}

func TestList_HasTheAllocationsOfAJob(t *testing.T) {
	s := newStatusServer(t)
	s.AddNode("n1", "")
	s.AddAlloc("a", "n1")
	alloc := endpointstest.Must(s, structs.AllocGet, &structs.AllocGetRequest{AllocID: "a"}).Alloc
	resp := listStatuses(s, statusQuery(structs.QueryOptions{}))
	if len(resp.Jobs) != 1 || len(resp.Jobs[0].Allocs) != 1 {
		t.Fatalf("got %d jobs", len(resp.Jobs))
	}
	j := resp.Jobs[0]
	want := structs.AllocStatus{
		ID: "a", Group: alloc.TaskGroup, ClientStatus: alloc.ClientStatus, NodeID: "n1", JobVersion: alloc.JobVersion,
	}
	if *j.Allocs[0] != want {
		t.Errorf("got the allocation %+v, want %+v", *j.Allocs[0], want)
	}
	row := endpointstest.Must(s, structs.JobGet, &structs.JobGetRequest{JobID: j.ID}).Job
	if j.Name != row.Name || j.Type != row.Type || j.ModifyIndex != row.ModifyIndex || j.Status != row.Status ||
		j.GroupCountSum != row.TaskGroups[0].Count || j.Namespace != structs.DefaultNamespace ||
		j.Stop || j.IsPack || j.LatestDeployment != nil {
		t.Errorf("got the job %+v of the row %+v", j, row)
	}

	// The allocations of a purged job are not those of the next job with its ID.
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: j.ID, Purge: true})
	registerJob(s, j.ID, func(j *structs.Job) { j.Meta = map[string]string{"pack.name": "p"} })
	next := listStatuses(s, statusQuery(structs.QueryOptions{})).Jobs[0]
	if len(next.Allocs) != 0 || next.Allocs == nil || !next.IsPack {
		t.Errorf("the next job is %+v", next)
	}
}

func TestList_AnswersAWaitingRequest(t *testing.T) {
	s := newStatusServer(t)
	registerJob(s, "a")
	first := listStatuses(s, statusQuery(structs.QueryOptions{}))
	type answer struct {
		resp *structs.JobStatusesResponse
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		next := statusQuery(structs.QueryOptions{MinIndex: first.Index})
		resp, err := rpc.Call(t.Context(), s.RPC, structs.JobStatuses, &next)
		answered <- answer{resp, err}
	}()
	registerJob(s, "b")
	got := <-answered
	if got.err != nil || idsOf(got.resp) != "b a" {
		t.Errorf("got %+v, want the new job", got)
	}
}

// BenchmarkList reads pages of 25 of 100,000 jobs.
func BenchmarkList(b *testing.B) {
	s := newStatusServer(b)
	for n := range 100_000 {
		registerJob(s, fmt.Sprintf("job-%05d", n))
	}
	for name, q := range map[string]structs.QueryOptions{
		"first":  {PerPage: 25},
		"filter": {PerPage: 25, Filter: `ID contains "99"`},
		"last":   {PerPage: 25, Filter: `ID matches "job-000([01][0-9]|2[0-4])"`},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := listStatuses(s, statusQuery(q)); len(got.Jobs) != 25 {
					b.Fatalf("%d jobs", len(got.Jobs))
				}
			}
		})
	}
}
