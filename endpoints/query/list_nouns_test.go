package query_test

import (
	"fmt"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
)

func TestList_PagesOfEachNoun(t *testing.T) {
	s := endpointstest.New(t)
	for i := range 3 {
		id := fmt.Sprint("n", i)
		s.AddNode(id, "a")
		s.AddAlloc(fmt.Sprint("a", i), id)
		s.AddVolume(fmt.Sprint("v", i))
	}
	with := func(q structs.QueryOptions) *structs.QueryRequest { return &structs.QueryRequest{QueryOptions: q} }
	q := structs.QueryOptions{PerPage: 2}
	nodes := endpointstest.Must(s, structs.NodeList, with(q))
	jobs := endpointstest.Must(s, structs.JobList, with(q))
	allocs := endpointstest.Must(s, structs.AllocList, with(q))
	evals := endpointstest.Must(s, structs.EvalList, &structs.EvalListRequest{QueryOptions: q})
	volumes := endpointstest.Must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q})
	for name, c := range map[string]struct {
		rows int
		next string
	}{
		"nodes":   {len(nodes.Nodes), nodes.NextToken},
		"jobs":    {len(jobs.Jobs), jobs.NextToken},
		"allocs":  {len(allocs.Allocations), allocs.NextToken},
		"evals":   {len(evals.Evaluations), evals.NextToken},
		"volumes": {len(volumes.Volumes), volumes.NextToken},
	} {
		if c.rows != 2 || c.next == "" {
			t.Errorf("%s: %d rows, next %q", name, c.rows, c.next)
		}
	}
	got := endpointstest.Must(s, structs.NodeList, with(structs.QueryOptions{Prefix: "n1"})).Nodes
	if len(got) != 1 {
		t.Errorf("prefix n1: %d nodes", len(got))
	}
	q = structs.QueryOptions{Prefix: "a1", Namespace: "*"}
	one := endpointstest.Must(s, structs.AllocList, with(q)).Allocations
	if len(one) != 1 || one[0].JobType != structs.JobService {
		t.Errorf("prefix a1: %+v", one)
	}
	none := endpointstest.Must(s, structs.JobList, with(structs.QueryOptions{Namespace: "other"})).Jobs
	if len(none) != 0 {
		t.Errorf("another namespace: %d jobs", len(none))
	}
}
