package query_test

import (
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/structs"
)

// serverWithChangedVolumes has the volumes a to e, created in the order ebdac. c and e have changed since.
func serverWithChangedVolumes(t *testing.T) *endpointstest.Server {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n0", "a")
	for _, id := range []string{"e", "b", "d", "a", "c"} {
		s.AddVolume(id)
	}
	for _, id := range []string{"c", "e"} { // change
		v := endpointstest.Volume(id)
		v.Namespace = "default"
		v.ExternalID = "ext-" + id
		v.MountOptions = &structs.CSIMountOptions{FSType: "xfs"}
		endpointstest.MustPropose(s, fsm.VolumePut, endpointstest.RegisterRequest(v))
	}
	return s
}

// TestList_SortsByIndex: by the index of creation or of the last change, forwards and backwards, whole and in
// pages.
func TestList_SortsByIndex(t *testing.T) {
	s := serverWithChangedVolumes(t)
	list := func(q structs.QueryOptions) string {
		var ids []string
		for _, v := range endpointstest.Must(s, structs.CSIVolumeList,
			&structs.CSIVolumeListRequest{QueryOptions: q}).Volumes {
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
}

func TestList_SortedRowsComeInPagesAndStreams(t *testing.T) {
	s := serverWithChangedVolumes(t)
	for i, id := range s.AddAllocs("a", "n1", 9) { // all have the same index
		s.Claim(string("abcde"[i%5]), id, "n1")
	}
	for _, by := range []string{structs.SortCreate, structs.SortModify} {
		sorted := func(q structs.QueryOptions) structs.QueryOptions {
			q.Sort = by
			return q
		}
		plain := func(q structs.QueryOptions) structs.QueryRequest {
			return plainQuery(sorted(q))
		}
		comparePages(s, structs.AllocList, plain, allocsOf)
		comparePages(s, structs.EvalList, func(q structs.QueryOptions) structs.EvalListRequest {
			return evalQuery(sorted(q))
		}, evalsOf)
		comparePages(s, structs.NodeList, plain, nodesOf)
		comparePages(s, structs.JobList, plain, jobsOf)
		comparePages(s, structs.CSIClaimList, func(q structs.QueryOptions) structs.CSIClaimListRequest {
			return claimQuery(sorted(q))
		}, claimsOf)
		compareStream(s, structs.AllocList, plain, allocsOf)
	}
	for _, q := range []structs.QueryOptions{
		{Sort: "ID"},
		{Sort: structs.SortCreate, NextToken: query.Token("x", "y")},
	} {
		endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeList,
			&structs.CSIVolumeListRequest{QueryOptions: q})
	}
	claims := endpointstest.Must(s, structs.CSIClaimList, &structs.CSIClaimListRequest{
		QueryOptions: structs.QueryOptions{
			Sort:    structs.SortCreate,
			Reverse: true,
		},
	}).Claims
	newestFirst := func(a, b *structs.CSIClaim) int {
		return int(b.CreateIndex) - int(a.CreateIndex)
	}
	if len(claims) != 9 || !slices.IsSortedFunc(claims, newestFirst) {
		t.Errorf("got %d claims, or in another order, want 9 with the newest first", len(claims))
	}
}
