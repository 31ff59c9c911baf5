package endpoints

import (
	"slices"
	"strings"
	"testing"

	"berth/endpoints/query"
	"berth/fsm"
	"berth/structs"
)

// TestList_SortsByIndex: by the index of creation or of the last change, forwards and backwards, whole and in
// pages.
func TestList_SortsByIndex(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.addNode("n0", "a")
	for _, id := range []string{"e", "b", "d", "a", "c"} {
		s.addVolume(id)
	}
	for _, id := range []string{"c", "e"} { // change
		v := testVolume(id)
		v.Namespace = "default"
		v.ExternalID = "ext-" + id
		v.MountOptions = &structs.CSIMountOptions{FSType: "xfs"}
		mustPropose(s, fsm.VolumePut, registerRequest(v))
	}
	list := func(q structs.QueryOptions) string {
		var ids []string
		for _, v := range must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q}).Volumes {
			ids = append(ids, v.ID)
		}
		return strings.Join(ids, "")
	}
	for want, q := range map[string]structs.QueryOptions{
		"abcde": {},
		"ebdac": {Sort: structs.SortCreate},
		"cadbe": {Sort: structs.SortCreate, Reverse: true},
		"bdace": {Sort: structs.SortModify},
		"ecadb": {Sort: structs.SortModify, Reverse: true},
		"dac":   {Sort: structs.SortCreate, Filter: `ID != "e" and ID != "b"`},
		"bd":    {Sort: structs.SortModify, PerPage: 2},
		"eca":   {Sort: structs.SortModify, PerPage: 3, Reverse: true},
	} {
		if got := list(q); got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
	for i, id := range s.addAllocs("a", "n1", 9) { // all of them come together
		s.claim(string("abcde"[i%5]), id, "n1")
	}
	for _, by := range []string{structs.SortCreate, structs.SortModify} {
		sorted := func(q structs.QueryOptions) structs.QueryOptions {
			q.Sort = by
			return q
		}
		plain := func(q structs.QueryOptions) structs.QueryRequest { return plainQuery(sorted(q)) }
		comparePages(s, structs.AllocList, plain,
			func(r *structs.AllocListResponse) []*structs.AllocListStub { return r.Allocations })
		comparePages(s, structs.EvalList, plain,
			func(r *structs.EvalListResponse) []*structs.Evaluation { return r.Evaluations })
		comparePages(s, structs.NodeList, plain,
			func(r *structs.NodeListResponse) []*structs.NodeListStub { return r.Nodes })
		comparePages(s, structs.JobList, plain,
			func(r *structs.JobListResponse) []*structs.JobListStub { return r.Jobs })
		comparePages(s, structs.CSIClaimList, func(q structs.QueryOptions) structs.CSIClaimListRequest {
			return structs.CSIClaimListRequest{QueryOptions: sorted(q)}
		}, func(r *structs.CSIClaimListResponse) []*structs.CSIClaim { return r.Claims })
		compareStream(s, structs.AllocList, plain,
			func(r *structs.AllocListResponse) []*structs.AllocListStub { return r.Allocations })
	}
	for _, q := range []structs.QueryOptions{
		{Sort: "ID"},
		{Sort: structs.SortCreate, NextToken: query.Token("x", "y")},
	} {
		refused(s, structs.KindInvalid, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q})
	}
	claims := must(s, structs.CSIClaimList,
		&structs.CSIClaimListRequest{
			QueryOptions: structs.QueryOptions{
				Sort:    structs.SortCreate,
				Reverse: true,
			},
		}).Claims
	if len(claims) != 9 ||
		!slices.IsSortedFunc(claims,
			func(a, b *structs.CSIClaim) int { return int(b.CreateIndex) - int(a.CreateIndex) }) {
		t.Errorf("%d claims, or in another order", len(claims))
	}
}
