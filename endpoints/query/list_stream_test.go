package query_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/state/csi"
	"berth/structs"
)

// addVolumes adds a number of volumes.
func addVolumes(s *endpointstest.Server, n int) {
	s.T.Helper()
	put := &structs.CSIVolumeRegisterRequest{}
	for i := range n {
		v := endpointstest.ReadyVolume(fmt.Sprintf("v%05d", i))
		put.Volumes = append(put.Volumes, v)
	}
	endpointstest.MustPropose(s, fsm.VolumePut, put)
}

// readStream reads a list as a stream.
func readStream[Req, Resp any](s *endpointstest.Server, m structs.Method[Req, Resp], req Req) (
	rows []any, meta *structs.QueryMeta,
) {
	s.T.Helper()
	any(&req).(query.ReadRequest).Query().Stream = true
	resp := endpointstest.Must(s, m, &req)
	meta = query.MetaOf(resp)
	if meta.Rows == nil {
		s.T.Fatalf("%s answers no stream", m.Name)
	}
	if err := meta.Rows(func(row any) error {
		own := reflect.New(reflect.TypeOf(row).Elem()) // the next row may come in its place
		own.Elem().Set(reflect.ValueOf(row).Elem())
		rows = append(rows, own.Interface())
		return nil
	}); err != nil {
		s.T.Fatal(err)
	}
	return rows, meta
}

// compareStream compares a list with its stream, for some options.
func compareStream[Req, Resp, Row any](
	s *endpointstest.Server,
	m structs.Method[Req, Resp],
	with func(structs.QueryOptions) Req,
	pick func(*Resp) []*Row,
) {
	s.T.Helper()
	for _, q := range []structs.QueryOptions{
		{},
		{Namespace: "*"},
		{Reverse: true},
		{Prefix: "a"},
		{Prefix: "v0", Reverse: true},
	} {
		req := with(q)
		list := pick(endpointstest.Must(s, m, &req))
		rows, meta := readStream(s, m, with(q))
		var want []any
		for _, row := range list {
			want = append(want, row)
		}
		if !reflect.DeepEqual(rows, want) {
			s.T.Errorf("%s with %+v: %d rows in the list, %d in the stream, or others", m.Name, q,
				len(list), len(rows))
		}
		if meta.Index != s.Store.Index() || !meta.KnownLeader {
			s.T.Errorf("%s: the stream has the metadata %+v", m.Name, meta)
		}
	}
}

func plainQuery(q structs.QueryOptions) structs.QueryRequest {
	return structs.QueryRequest{QueryOptions: q}
}

func evalQuery(q structs.QueryOptions) structs.EvalListRequest {
	return structs.EvalListRequest{QueryOptions: q}
}

func volumeQuery(q structs.QueryOptions) structs.CSIVolumeListRequest {
	return structs.CSIVolumeListRequest{QueryOptions: q}
}

func claimQuery(q structs.QueryOptions) structs.CSIClaimListRequest {
	return structs.CSIClaimListRequest{QueryOptions: q}
}

// The rows of each list.

func nodesOf(r *structs.NodeListResponse) []*structs.NodeListStub { return r.Nodes }

func jobsOf(r *structs.JobListResponse) []*structs.JobListStub { return r.Jobs }

func allocsOf(r *structs.AllocListResponse) []*structs.AllocListStub { return r.Allocations }

func evalsOf(r *structs.EvalListResponse) []*structs.Evaluation { return r.Evaluations }

func pluginsOf(r *structs.CSIPluginListResponse) []*structs.CSIPluginListStub { return r.Plugins }

func volumesOf(r *structs.CSIVolumeListResponse) []*structs.CSIVolumeListStub { return r.Volumes }

func claimsOf(r *structs.CSIClaimListResponse) []*structs.CSIClaim { return r.Claims }

func TestList_StreamHasSameRows(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "b")
	addVolumes(s, 20)
	for i, id := range s.AddAllocs("a", "n1", 5) {
		s.Claim(fmt.Sprintf("v%05d", 3-i%2), id, "n1")
	}
	compareStream(s, structs.NodeList, plainQuery, nodesOf)
	compareStream(s, structs.JobList, plainQuery, jobsOf)
	compareStream(s, structs.AllocList, plainQuery, allocsOf)
	compareStream(s, structs.EvalList, evalQuery, evalsOf)
	compareStream(s, structs.CSIPluginList, plainQuery, pluginsOf)
	for _, of := range []structs.CSIVolumeListRequest{{}, {PluginID: "pl"}, {NodeID: "n1"}} {
		compareStream(s, structs.CSIVolumeList, func(q structs.QueryOptions) structs.CSIVolumeListRequest {
			of.QueryOptions = q
			return of
		}, volumesOf)
	}
	for _, of := range []structs.CSIClaimListRequest{{}, {VolumeID: "v00002"}, {NodeID: "n1"}} {
		compareStream(s, structs.CSIClaimList, func(q structs.QueryOptions) structs.CSIClaimListRequest {
			of.QueryOptions = q
			return of
		}, claimsOf)
	}
	compareStream(s, structs.CSIVolumeList, func(q structs.QueryOptions) structs.CSIVolumeListRequest {
		q.Filter = `ID matches "[3-7]$"`
		return structs.CSIVolumeListRequest{QueryOptions: q}
	}, volumesOf)
	got := endpointstest.Must(s, structs.CSIVolumeList,
		&structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{Stream: true, Filter: `Nonsense == 1`}})
	if err := got.Rows(func(any) error { return nil }); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a filter that does not fit the rows: %v", err)
	}
}

// TestList_StreamsAfterWait: a blocking list returns the rows after a change, or unchanged when the time is
// over. It holds at most one row in memory.
func TestList_StreamsAfterWait(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	addVolumes(s, 300)
	ids := s.AddAllocs("a", "n1", 2)
	ask := func(index uint64, wait time.Duration) (*structs.CSIVolumeListResponse, int, int) {
		resp := endpointstest.Must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{
			QueryOptions: structs.QueryOptions{
				Stream:   true,
				MinIndex: index,
				MaxWait:  wait,
			},
		})
		rows, writers := 0, 0
		err := resp.Rows(func(row any) error {
			rows++
			writers += row.(*structs.CSIVolumeListStub).CurrentWriters
			return nil
		})
		if err != nil || len(resp.Volumes) != 0 {
			t.Errorf("%d rows were made, %v", len(resp.Volumes), err)
		}
		return resp, rows, writers
	}
	first, rows, _ := ask(1, time.Minute)
	if rows != 300 || first.Index == 0 {
		t.Errorf("%d rows at %d", rows, first.Index)
	}
	s.AddAllocs("b", "n1", 1) // changes no row of the list
	still, rows, writers := ask(first.Index, time.Millisecond)
	if rows != 300 || writers != 0 || still.Index < first.Index {
		t.Errorf("when the time is over: %d rows, %d writers at %d", rows, writers, still.Index)
	}
	for i, id := range ids {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			resp, rows, writers := ask(still.Index, time.Minute)
			if rows != 300 || writers != i+1 || resp.Index <= still.Index {
				t.Errorf("after a claim: %d rows, %d writers at %d", rows, writers, resp.Index)
			}
			still = resp
		}()
		s.Claim(fmt.Sprintf("v%05d", 200+i), id, "n1")
		<-answered
	}
	cost := func(n int) float64 {
		s := endpointstest.New(t)
		s.AddNode("n1", "a")
		addVolumes(s, n)
		return testing.AllocsPerRun(5, func() {
			q := structs.QueryOptions{
				Stream:   true,
				MinIndex: s.Store.Index() + 1,
				MaxWait:  time.Nanosecond,
			}
			endpointstest.Must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q})
		})
	}
	if few, many := cost(500), cost(5000); many > 2*few {
		t.Errorf("a second run allocates %.0f times for 500 volumes, %.0f times for 5000", few, many)
	}
}

func TestClaimList_ComesVolumeByVolume(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	addVolumes(s, 4)
	ids := s.AddAllocs("a", "n1", 6)
	slices.Reverse(ids) // the queue order is not the order of the IDs
	for _, id := range ids {
		for i := range 4 {
			s.Claim(fmt.Sprintf("v%05d", 3-i), id, "n1")
		}
	}
	var want []string
	for i := range 4 {
		for _, id := range ids {
			want = append(want, fmt.Sprintf("v%05d %s", i, id))
		}
	}
	var got []string
	req := structs.CSIClaimListRequest{QueryOptions: structs.QueryOptions{PerPage: 5}}
	for range want {
		page := endpointstest.Must(s, structs.CSIClaimList, &req)
		for _, c := range page.Claims {
			got = append(got, c.VolumeID+" "+c.AllocID)
		}
		req.NextToken = page.NextToken
		if req.NextToken == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestList_SlowReaderDelaysNoWriter: claims are written while the reader of a list of 10,000 volumes pauses.
// The list continues with the snapshot with which it began.
func TestList_SlowReaderDelaysNoWriter(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	addVolumes(s, 10_000)
	ids := s.AddAllocs("a", "n1", 100)
	resp := endpointstest.Must(s, structs.CSIVolumeList,
		&structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{Stream: true}})
	rows, readers := 0, 0
	err := resp.Rows(func(row any) error {
		rows++
		if rows == 100 {
			done := make(chan error)
			go func() {
				for i, id := range ids {
					req := agenttest.Request(&structs.CSIVolumeClaimRequest{
						NodeID:   "n1",
						SecretID: endpointstest.SecretOf("n1"),
						Claims:   []*structs.CSIClaim{endpointstest.Claim(fmt.Sprintf("v%05d", 9999-i), id)},
					})
					_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeClaim, req)
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			if err := <-done; err != nil {
				return err
			}
		}
		readers += row.(*structs.CSIVolumeListStub).CurrentWriters
		return nil
	})
	if err != nil || rows != 10_000 || readers != 0 {
		t.Errorf("got %d rows with %d later claims, %v; want 10000 rows with none", rows, readers, err)
	}
	n := 0
	for range csi.ClaimsByNode(s.Store.Read(), "n1") {
		n++
	}
	if n != 100 {
		t.Errorf("%d claims were written meanwhile, want 100", n)
	}
}

// TestList_StreamMakesRowsOnDemand: the peak memory of a list does not grow with its length.
func TestList_StreamMakesRowsOnDemand(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	addVolumes(s, 2000)
	resp := endpointstest.Must(s, structs.CSIVolumeList,
		&structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{Stream: true}})
	if len(resp.Volumes) != 0 {
		t.Fatalf("%d rows were made beforehand", len(resp.Volumes))
	}
	made := 0
	stop := structs.Errorf(structs.KindTimeout, "enough")
	err := resp.Rows(func(any) error {
		made++
		if made == 3 {
			return stop
		}
		return nil
	})
	if err == nil || !structs.IsKind(err, structs.KindTimeout) || made != 3 {
		t.Errorf("%d rows were made, %v", made, err)
	}
}
