package query_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/endpoints/query"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// comparePages reads a list page by page and compares it with the whole.
func comparePages[Req, Resp, Row any](
	s *endpointstest.Server,
	m structs.Method[Req, Resp],
	with func(structs.QueryOptions) Req,
	pick func(*Resp) []*Row,
) {
	s.T.Helper()
	for _, q := range []structs.QueryOptions{
		{},
		{Namespace: "*"},
		{Namespace: "other"},
		{Prefix: "v0000", Namespace: "*"},
		{Prefix: "a"},
		{Reverse: true},
		{Prefix: "zz"},
	} {
		req := with(q)
		whole := pick(endpointstest.Must(s, m, &req))
		var got []*Row
		for q.PerPage = 3; ; {
			req := with(q)
			resp := endpointstest.Must(s, m, &req)
			got = append(got, pick(resp)...)
			q.NextToken = query.MetaOf(resp).NextToken
			if q.NextToken == "" || len(got) > len(whole) {
				break
			}
		}
		if len(got) != len(whole) || len(whole) > 0 && !reflect.DeepEqual(got, whole) {
			s.T.Errorf("%s with %+v: %d rows in pages, %d in the whole list, or different rows",
				m.Name, q, len(got), len(whole))
		}
	}
}

func TestList_PagesMakeWhole(t *testing.T) {
	s := endpointstest.New(t)
	for i := range 8 {
		s.AddNode(fmt.Sprintf("a%d", i), "z")
	}
	addVolumes(s, 20)
	for _, ns := range []string{"default2", "other"} { // one whose name has another's as prefix
		s.AddNamespace(ns)
		for i := range 5 {
			v := endpointstest.Volume(fmt.Sprintf("v%05d", i))
			v.Namespace = ns
			v.ExternalID = "ext-" + ns + v.ID
			endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
		}
	}
	for i := range 10 {
		s.AddAllocs(fmt.Sprintf("a%d-", i), "a1", 2)
	}
	comparePages(s, structs.NodeList, plainQuery, nodesOf)
	comparePages(s, cluster.NamespaceList, plainQuery,
		func(a *cluster.NamespaceListResponse) []*cluster.Namespace { return a.Namespaces })
	comparePages(s, structs.JobList, plainQuery, jobsOf)
	comparePages(s, structs.AllocList, plainQuery, allocsOf)
	comparePages(s, structs.EvalList, evalQuery, evalsOf)
	comparePages(s, structs.CSIVolumeList, volumeQuery, volumesOf)
}

// addSingleWriterVolume registers a volume for one writer at a time.
func addSingleWriterVolume(s *endpointstest.Server, id string) {
	v := endpointstest.Volume(id)
	v.ExternalID = "ext-" + id
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     structs.CSIMultiNodeSingleWriter,
		AttachmentMode: structs.CSIFileSystem,
	}}
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
}

// TestClaimList_PagesMakeWhole: of all, of a volume and of a node, for volumes with one user at a time and
// with many.
func TestClaimList_PagesMakeWhole(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "z")
	s.AddNode("n2", "z")
	addVolumes(s, 2)
	addSingleWriterVolume(s, "v00002")
	for _, node := range []string{"n2", "n1"} {
		ids := s.AddAllocs(node+"-", node, 7)
		slices.Reverse(ids) // the queue order is not the order of the IDs
		for i, id := range ids {
			for v := range 3 {
				c := endpointstest.Claim(fmt.Sprintf("v%05d", (v+i)%3), id)
				if c.VolumeID == "v00002" {
					c.AccessMode = structs.CSIMultiNodeSingleWriter
				}
				endpointstest.Must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
					NodeID:   node,
					SecretID: endpointstest.SecretOf(node),
					Claims:   []*structs.CSIClaim{c},
				})
			}
		}
	}
	for _, of := range []structs.CSIClaimListRequest{
		{},
		{VolumeID: "v00001"},
		{VolumeID: "v00002"},
		{VolumeID: "none"},
		{NodeID: "n2"},
		{VolumeID: "v00001", NodeID: "n1"},
		{VolumeID: "v00002", NodeID: "n1"},
	} {
		for _, back := range []bool{false, true} {
			comparePages(s, structs.CSIClaimList, func(q structs.QueryOptions) structs.CSIClaimListRequest {
				of.QueryOptions = q
				of.Reverse = back
				return of
			}, claimsOf)
		}
	}
	for _, token := range []string{query.Token("default"), query.Token("default", "v00001", "x", "1")} {
		endpointstest.Rejected(s, structs.KindInvalid, structs.CSIClaimList, &structs.CSIClaimListRequest{
			VolumeID:     "v00001",
			QueryOptions: structs.QueryOptions{NextToken: token},
		})
	}
}

// TestList_PageCostsSameInAnyList: a page costs the same in a short and a long list, forwards and backwards,
// as the first, a middle or the last page. It reads no rows before or after it.
func TestList_PageCostsSameInAnyList(t *testing.T) {
	costs := func(n int) (costs []float64) {
		s := endpointstest.New(t)
		s.AddNode("n1", "z")
		addVolumes(s, n)
		middle := query.Token("default", fmt.Sprintf("v%05d", n/2))
		last := query.Token("default", fmt.Sprintf("v%05d", n-10))
		for _, q := range []structs.QueryOptions{
			{},
			{NextToken: middle},
			{NextToken: last},
			{Reverse: true},
			{Reverse: true, NextToken: middle},
		} {
			q.PerPage = 10
			costs = append(costs, testing.AllocsPerRun(10, func() {
				got := endpointstest.Must(s, structs.CSIVolumeList,
					&structs.CSIVolumeListRequest{QueryOptions: q}).Volumes
				if len(got) != 10 {
					t.Fatalf("%d rows", len(got))
				}
			}))
		}
		addSingleWriterVolume(s, "queue")
		req := &structs.CSIVolumeClaimRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
		for _, id := range s.AddAllocs("a", "n1", n) {
			c := endpointstest.Claim("queue", id)
			c.AccessMode = structs.CSIMultiNodeSingleWriter
			req.Claims = append(req.Claims, c)
		}
		endpointstest.Must(s, structs.CSIVolumeClaim, req)
		job := state.Alloc(s.Store.Read(), "a00000").JobID
		for _, back := range []bool{false, true} {
			q := structs.QueryOptions{PerPage: 10, Reverse: back}
			costs = append(costs, testing.AllocsPerRun(10, func() {
				endpointstest.Must(s, structs.CSIClaimList,
					&structs.CSIClaimListRequest{VolumeID: "queue", QueryOptions: q})
			}), testing.AllocsPerRun(10, func() {
				endpointstest.Must(s, structs.JobAllocations, &structs.JobGetRequest{JobID: job, QueryOptions: q})
			}))
		}
		return costs
	}
	few, many := costs(100), costs(4000)
	for i := range few {
		if many[i] > 1.5*few[i]+20 {
			t.Errorf("page %d: %.0f allocations of memory in a short list, %.0f in a long one", i, few[i], many[i])
		}
	}
}

// TestClaimList_PageOfManyReaders: no index has the order of their queue. The list reads the whole queue, and
// copies only the rows of the page.
func TestClaimList_PageOfManyReaders(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "z")
	s.AddVolume("v")
	req := &structs.CSIVolumeClaimRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
	for _, id := range s.AddAllocs("a", "n1", 4000) {
		req.Claims = append(req.Claims, endpointstest.Claim("v", id))
	}
	endpointstest.Must(s, structs.CSIVolumeClaim, req)
	all, _ := readStream(s, structs.CSIClaimList, structs.CSIClaimListRequest{
		VolumeID:     "v",
		QueryOptions: structs.QueryOptions{PerPage: 10},
	})
	if len(all) != 4000 {
		t.Errorf("a stream in the process has %d rows, want all 4000", len(all))
	}
	cost := testing.AllocsPerRun(10, func() {
		endpointstest.Must(s, structs.CSIClaimList, &structs.CSIClaimListRequest{
			VolumeID:     "v",
			QueryOptions: structs.QueryOptions{PerPage: 10},
		})
	})
	if cost > 1000 {
		t.Errorf("%.0f allocations of memory for ten of 4000 claims", cost)
	}
}

// The pages of the evaluations of one job have what the whole list has.
func TestEvalList_PagesOfAJob(t *testing.T) {
	s := endpointstest.New(t)
	for priority := range 6 {
		job := endpointstest.Job("web")
		job.Priority = 50 + priority
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: endpointstest.Job("db")})
	ofJob := func(q structs.QueryOptions) structs.EvalListRequest {
		return structs.EvalListRequest{JobID: "web", QueryOptions: q}
	}
	whole := ofJob(structs.QueryOptions{})
	if n := len(evalsOf(endpointstest.Must(s, structs.EvalList, &whole))); n != 6 {
		t.Fatalf("the job has %d evaluations, want 6: two pages", n)
	}
	comparePages(s, structs.EvalList, ofJob, evalsOf)
}
