package query_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/endpoints/query"
	"berth/internal/rowfilter"
	"berth/structs"
)

// TestList_FilterKeepsRows: a filter reads stubs in one reused buffer, and the response has copies of those
// that pass.
func TestList_FilterKeepsRows(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	addVolumes(s, 50)
	s.Claim("v00007", "a1", "n1")
	list := func(q structs.QueryOptions) []*structs.CSIVolumeListStub {
		if q.Stream {
			rows := []*structs.CSIVolumeListStub{}
			all, _ := readStream(s, structs.CSIVolumeList, structs.CSIVolumeListRequest{QueryOptions: q})
			for _, row := range all {
				rows = append(rows, row.(*structs.CSIVolumeListStub))
			}
			return rows
		}
		return endpointstest.Must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q}).Volumes
	}
	all := list(structs.QueryOptions{})
	for _, q := range []structs.QueryOptions{
		{},
		{Reverse: true},
		{PerPage: 7},
		{Stream: true},
		{NextToken: query.Token("default", "v00030")},
	} {
		for expression, keep := range map[string]func(*structs.CSIVolumeListStub) bool{
			`ID != ""`: func(*structs.CSIVolumeListStub) bool { return true },
			`ID matches "[05]$"`: func(v *structs.CSIVolumeListStub) bool {
				return strings.ContainsAny(v.ID[5:], "05")
			},
			`CurrentWriters != 0 or CurrentReaders != 0`: func(v *structs.CSIVolumeListStub) bool { return v.CurrentWriters+v.CurrentReaders > 0 },
			`State == "nowhere"`:                         func(*structs.CSIVolumeListStub) bool { return false },
		} {
			want := []*structs.CSIVolumeListStub{}
			for _, v := range all {
				if keep(v) && (q.NextToken == "" || v.ID >= "v00030") {
					want = append(want, v)
				}
			}
			if q.Reverse {
				slices.Reverse(want)
			}
			if q.PerPage > 0 {
				want = want[:min(len(want), int(q.PerPage))]
			}
			q.Filter = expression
			if got := list(q); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %d rows, want %d, or they differ", q, len(got), len(want))
			}
		}
	}
}

func TestList_ExplainsBadFilter(t *testing.T) {
	s := endpointstest.New(t)
	addVolumes(s, 1)
	for expression, want := range map[string]string{
		`ID ==`:               `the filter "ID ==" is not an expression: 1:6`,
		`Id == "x"`:           `the filter "Id == \"x\"" does not fit the rows: error finding value in datum: /Id at part 0`,
		`CurrentWriters == x`: `does not fit the rows: error getting match value in expression`,
		strings.Repeat("x", rowfilter.MaxLength+1): `x..." has 65537 bytes; expected 65536 at most`,
	} {
		err := endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeList,
			&structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{Filter: expression}})
		if !strings.Contains(err.Error(), want) || len(err.Error()) > 2000 {
			t.Errorf("%.30s: %.300v; want %q", expression, err, want)
		}
	}
}

// TestJobList_FiltersByMetadata: tools find their jobs by it.
func TestJobList_FiltersByMetadata(t *testing.T) {
	s := endpointstest.New(t)
	plain := func(id string) *structs.Job {
		job := endpointstest.Job(id)
		job.TaskGroups[0].Volumes = nil
		return job
	}
	for id, team := range map[string]string{"web": "front", "db": "data"} {
		job := plain(id)
		job.Meta = map[string]string{"team.name": team}
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: plain("plain")})
	got := endpointstest.Must(s, structs.JobList, &structs.QueryRequest{
		QueryOptions: structs.QueryOptions{Filter: `Meta["team.name"] == "data"`},
	}).Jobs
	if len(got) != 1 || got[0].ID != "db" {
		t.Errorf("got %d jobs: %+v", len(got), got)
	}
}
