package query_test

import (
	"fmt"
	"reflect"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/endpoints/query"
	"berth/internal/codec"
	"berth/rpc"
	"berth/structs"
)

// callOverWire answers a request over a wire. rows reports whether the answer was written row by row.
func callOverWire[Req, Resp any](
	s *endpointstest.Server, m structs.Method[Req, Resp], req Req,
) (resp *Resp, rows bool) {
	s.T.Helper()
	for _, e := range s.List() {
		if e.Name != m.Name {
			continue
		}
		if e.ServeRemote == nil {
			s.T.Fatalf("%s is no list", m.Name)
		}
		own := req
		answer, err := e.ServeRemote(s.T.Context(), &own)
		if err == nil {
			_, rows = answer.(rpc.Appender)
			server := endpointstest.NewPool(s.T).At(endpointstest.Listen(s.T, s.RPC))
			resp, err = rpc.Call(s.T.Context(), server, m, &req)
		}
		if err != nil {
			s.T.Fatalf("%s: %v", m.Name, err)
		}
		return resp, rows
	}
	s.T.Fatalf("there is no %s", m.Name)
	return nil, false
}

// compareWire compares the response of a list within the process with that over a wire.
func compareWire[Req, Resp any](
	s *endpointstest.Server,
	m structs.Method[Req, Resp],
	with func(structs.QueryOptions) Req,
	wantRows bool,
	q structs.QueryOptions,
) {
	s.T.Helper()
	req := with(q)
	answer := endpointstest.Must(s, m, &req)
	meta := query.MetaOf(answer)
	b, err := codec.Encode(answer)
	if err != nil {
		s.T.Fatal(err)
	}
	want := new(Resp)
	if err := codec.Decode(b, want); err != nil {
		s.T.Fatal(err)
	}
	got, rows := callOverWire(s, m, with(q))
	if rows != wantRows {
		s.T.Errorf("%s with %+v: row by row %t, want %t", m.Name, q, rows, wantRows)
	}
	if gotMeta := query.MetaOf(got); gotMeta.Index < meta.Index || gotMeta.Index > s.Store.Index() {
		s.T.Errorf("%s: index %d, in the process %d", m.Name, gotMeta.Index, meta.Index)
	}
	query.MetaOf(got).Index = 0
	query.MetaOf(want).Index = 0
	if !reflect.DeepEqual(got, want) {
		s.T.Errorf("%s with %+v:\n%+v, in the process\n%+v", m.Name, q, got, want)
	}
}

func TestList_HasSameRowsOverWire(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "b")
	addVolumes(s, 20)
	for i, id := range s.AddAllocs("a", "n1", 5) {
		s.Claim(fmt.Sprintf("v%05d", 3-i%2), id, "n1")
	}
	ofJob := func(q structs.QueryOptions) structs.JobGetRequest {
		return structs.JobGetRequest{JobID: "a", QueryOptions: q}
	}
	ofNode := func(q structs.QueryOptions) structs.NodeGetRequest {
		return structs.NodeGetRequest{NodeID: "n1", QueryOptions: q}
	}
	for _, tc := range []struct {
		q    structs.QueryOptions
		rows bool
	}{
		{structs.QueryOptions{}, true},
		{structs.QueryOptions{Reverse: true}, true},
		{structs.QueryOptions{Prefix: "none"}, true},
		{structs.QueryOptions{PerPage: 3}, false},
		{structs.QueryOptions{MinIndex: 1}, true},
		{structs.QueryOptions{Filter: `ID != "x"`}, true},
	} {
		compareWire(s, structs.NodeList, plainQuery, tc.rows, tc.q)
		compareWire(s, structs.JobList, plainQuery, tc.rows, tc.q)
		compareWire(s, structs.AllocList, plainQuery, tc.rows, tc.q)
		compareWire(s, structs.EvalList, evalQuery, tc.rows, tc.q)
		compareWire(s, structs.CSIPluginList, plainQuery, tc.rows, tc.q)
		compareWire(s, structs.CSIVolumeList, volumeQuery, tc.rows, tc.q)
		compareWire(s, structs.JobAllocations, ofJob, tc.rows, tc.q)
		compareWire(s, structs.JobEvaluations, ofJob, tc.rows, tc.q)
		compareWire(s, structs.NodeAllocs, ofNode, tc.rows, tc.q)
		if tc.q.Filter == "" { // claims have no ID
			compareWire(s, structs.CSIClaimList, claimQuery, tc.rows, tc.q)
		}
	}
}
