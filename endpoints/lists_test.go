package endpoints_test

import (
	"fmt"
	"testing"

	"berth/structs"
)

func TestList_PagesOfEachNoun(t *testing.T) {
	s := newServer(t)
	for i := range 3 {
		id := fmt.Sprint("n", i)
		s.AddNode(id, "a")
		s.AddAlloc(fmt.Sprint("a", i), id)
		s.AddVolume(fmt.Sprint("v", i))
	}
	q := structs.QueryOptions{PerPage: 2}
	for name, c := range map[string]struct {
		rows int
		next string
	}{
		"nodes": {len(must(s, structs.NodeList, &structs.QueryRequest{QueryOptions: q}).Nodes),
			must(s, structs.NodeList, &structs.QueryRequest{QueryOptions: q}).NextToken},
		"jobs": {len(must(s, structs.JobList, &structs.QueryRequest{QueryOptions: q}).Jobs),
			must(s, structs.JobList, &structs.QueryRequest{QueryOptions: q}).NextToken},
		"allocs": {len(must(s, structs.AllocList, &structs.QueryRequest{QueryOptions: q}).Allocations),
			must(s, structs.AllocList, &structs.QueryRequest{QueryOptions: q}).NextToken},
		"evals": {len(must(s, structs.EvalList, &structs.EvalListRequest{QueryOptions: q}).Evaluations),
			must(s, structs.EvalList, &structs.EvalListRequest{QueryOptions: q}).NextToken},
		"volumes": {len(must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q}).Volumes),
			must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q}).NextToken},
	} {
		if c.rows != 2 || c.next == "" {
			t.Errorf("%s: %d rows, next %q", name, c.rows, c.next)
		}
	}
	got := must(s, structs.NodeList,
		&structs.QueryRequest{QueryOptions: structs.QueryOptions{Prefix: "n1"}}).Nodes
	if len(got) != 1 {
		t.Errorf("prefix n1: %d nodes", len(got))
	}
	if got := must(s, structs.AllocList, &structs.QueryRequest{QueryOptions: structs.QueryOptions{Prefix: "a1",
		Namespace: "*"}}).Allocations; len(got) != 1 || got[0].JobType != structs.JobService {
		t.Errorf("prefix a1: %+v", got)
	}
	if got := must(s, structs.JobList,
		&structs.QueryRequest{QueryOptions: structs.QueryOptions{Namespace: "other"}}).Jobs; len(got) != 0 {
		t.Errorf("another namespace: %d jobs", len(got))
	}
}
