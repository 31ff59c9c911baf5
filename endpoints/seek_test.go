package endpoints

import (
	"fmt"
	"reflect"
	"testing"

	"berth/structs"
)

// walk reads a list page by page and compares it with the whole.
func walk[Req, Resp, Row any](s *server, m structs.Method[Req, Resp], with func(structs.QueryOptions) Req, pick func(*Resp) []*Row) {
	s.t.Helper()
	for _, q := range []structs.QueryOptions{{}, {Namespace: "*"}, {Namespace: "other"}, {Prefix: "v0000", Namespace: "*"}, {Prefix: "a"}, {Reverse: true}, {Prefix: "zz"}} {
		req := with(q)
		whole := pick(must(s, m, &req))
		var got []*Row
		for q.PerPage = 3; ; {
			req := with(q)
			resp := must(s, m, &req)
			got = append(got, pick(resp)...)
			if q.NextToken = metaOf(resp).NextToken; q.NextToken == "" || len(got) > len(whole) {
				break
			}
		}
		if len(got) != len(whole) || len(whole) > 0 && !reflect.DeepEqual(got, whole) {
			s.t.Errorf("%s with %+v: %d rows in pages, %d in the whole, or others", m.Name, q, len(got), len(whole))
		}
	}
}

func TestPagesMakeTheList(t *testing.T) {
	s := newServer(t)
	for i := range 8 {
		s.addNode(fmt.Sprintf("a%d", i), "z")
	}
	s.manyVolumes(20)
	for _, ns := range []string{"default2", "other"} { // one whose name begins like another's
		for i := range 5 {
			v := aVolume(fmt.Sprintf("v%05d", i))
			v.Namespace, v.ExternalID = ns, "ext-"+ns+v.ID
			must(s, structs.CSIVolumeRegister, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
		}
	}
	for i := range 10 {
		s.addAllocs(fmt.Sprintf("a%d-", i), "a1", 2)
	}
	walk(s, structs.NodeList, plainQuery, func(r *structs.NodeListResponse) []*structs.NodeListStub { return r.Nodes })
	walk(s, structs.JobList, plainQuery, func(r *structs.JobListResponse) []*structs.JobListStub { return r.Jobs })
	walk(s, structs.AllocList, plainQuery, func(r *structs.AllocListResponse) []*structs.AllocListStub { return r.Allocations })
	walk(s, structs.EvalList, plainQuery, func(r *structs.EvalListResponse) []*structs.Evaluation { return r.Evaluations })
	walk(s, structs.CSIVolumeList, func(q structs.QueryOptions) structs.CSIVolumeListRequest {
		return structs.CSIVolumeListRequest{QueryOptions: q}
	}, func(r *structs.CSIVolumeListResponse) []*structs.CSIVolumeListStub { return r.Volumes })
}

// TestTheLastPageCostsWhatTheFirstCosts: rows before a page are not looked at.
func TestTheLastPageCostsWhatTheFirstCosts(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "z")
	s.manyVolumes(5000)
	cost := func(token []string) float64 {
		q := structs.QueryOptions{PerPage: 10}
		if token != nil {
			q.NextToken = toToken(token)
		}
		return testing.AllocsPerRun(10, func() {
			if got := must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q}).Volumes; len(got) != 10 {
				t.Fatalf("%d rows", len(got))
			}
		})
	}
	if first, last := cost(nil), cost([]string{"default", "v04990"}); last > 1.5*first {
		t.Errorf("%.0f allocations of memory for the first page, %.0f for the last", first, last)
	}
}
