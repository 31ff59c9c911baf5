package endpoints_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/endpoints/endpointstest"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/rpc"
	"berth/structs"
)

// watchers are blocking queries. They run in virtual time, in which the end of all changes is known.
type watchers struct {
	*endpointstest.Server
	mu       sync.Mutex
	answered map[string]int
	wakes    wakes
	wg       sync.WaitGroup
	ctx      context.Context
}

func newWatchers(s *endpointstest.Server) (*watchers, func()) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.T.Context())
	w := &watchers{
		Server:   s,
		answered: map[string]int{},
		ctx:      ctx,
	}
	config := &metrics.Config{FilterDefault: true}
	if _, err := metrics.NewGlobal(config, &w.wakes); err != nil {
		s.T.Fatal(err)
	}
	return w, func() {
		cancel()
		w.wg.Wait()
		_, _ = metrics.NewGlobal(config, &metrics.BlackholeSink{})
	}
}

// wakes is a sink that counts the blocking queries that have run again.
type wakes struct {
	metrics.BlackholeSink
	n atomic.Uint64
}

func (w *wakes) IncrCounterWithLabels(key []string, _ float32, _ []metrics.Label) {
	if slices.Equal(key, []string{"rpc", "woken"}) {
		w.n.Add(1)
	}
}

// repeatQuery repeats a blocking query until the end of the test, beginning with the present state. That of a
// claim ends with a ready answer, like a node's.
func repeatQuery[Req, Resp any](w *watchers, name string, m structs.Method[Req, Resp], req Req) {
	w.wg.Go(func() {
		for {
			resp, err := rpc.Call(w.ctx, w.RPC, m, &req)
			if err != nil {
				return
			}
			w.mu.Lock()
			w.answered[name]++
			w.mu.Unlock()
			claim, ok := any(resp).(*structs.CSIClaimGetResponse)
			if ok && claim.Ready {
				return
			}
			any(&req).(query.ReadRequest).Query().MinIndex = query.MetaOf(resp).Index
		}
	})
	synctest.Wait()
}

// after makes a change. It returns the queries that were answered because of it, and the number of reads that
// ran again.
func (w *watchers) after(change func()) (answered map[string]int, reruns uint64) {
	synctest.Wait()
	w.mu.Lock()
	w.answered = map[string]int{}
	w.mu.Unlock()
	before := w.wakes.n.Load()
	change()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered, w.wakes.n.Load() - before
}

// expect fails the test unless a change answers exactly the named queries, each once, with at most a number
// of reads that run again.
func (w *watchers) expect(what string, most uint64, change func(), names ...string) {
	w.T.Helper()
	got, reruns := w.after(change)
	want := map[string]int{}
	for _, n := range names {
		want[n] = 1
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.T.Errorf("%s: answered %v, want %v", what, got, want)
	}
	if reruns > most {
		w.T.Errorf("%s: %d reads ran again, want at most %d", what, reruns, most)
	}
}

const watched = 40

// populate makes nodes with an allocation each, volumes with a claim each, and a blocking query for each of
// these rows.
func populate(w *watchers) {
	for i := range watched {
		node := fmt.Sprintf("n%03d", i)
		alloc := fmt.Sprintf("a%03d", i)
		volume := fmt.Sprintf("v%03d", i)
		endpointstest.Must(w.Server, structs.NodeRegister, endpointstest.Registration(node))
		w.AddAlloc(alloc, node)
		v := endpointstest.Volume(volume)
		v.ExternalID, v.State = "ext-"+volume, structs.VolumeReady
		v.Namespace = "default"
		endpointstest.MustPropose(w.Server, fsm.VolumePut, endpointstest.RegisterRequest(v))
		w.Claim(volume, alloc, node)
	}
	for i := range watched {
		node := fmt.Sprintf("n%03d", i)
		alloc := fmt.Sprintf("a%03d", i)
		volume := fmt.Sprintf("v%03d", i)
		repeatQuery(w, "claim "+volume, structs.CSIClaimGet, structs.CSIClaimGetRequest{
			VolumeID: volume,
			AllocID:  alloc,
			NodeID:   node,
			SecretID: endpointstest.SecretOf(node),
		})
		repeatQuery(w, "volume "+volume, structs.CSIVolumeGet, structs.CSIVolumeGetRequest{ID: volume})
		repeatQuery(w, "allocs "+node, structs.NodeClientAllocs, structs.NodeGetRequest{
			NodeID:   node,
			SecretID: endpointstest.SecretOf(node),
		})
		repeatQuery(w, "alloc "+alloc, structs.AllocGet, structs.AllocGetRequest{AllocID: alloc})
		repeatQuery(w, "job "+alloc, structs.JobGet, structs.JobGetRequest{JobID: "job-" + alloc})
	}
}

// TestBlockingQuery_WakesForRowsRead counts the queries that run again and those that are answered, write by
// write.
func TestBlockingQuery_WakesForRowsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := newWatchers(endpointstest.New(t))
		defer stop()
		populate(w)
		w.expect("nothing", 0, func() {})
		w.expect("an allocation is placed", 3, func() { w.AddAlloc("b007", "n007") }, "allocs n007")
		w.expect("a claim", 2, func() { w.Claim("v007", "b007", "n007") }, "volume v007")
		w.expect("another volume without claims", 2, func() {
			v := endpointstest.ReadyVolume("w")
			endpointstest.MustPropose(w.Server, fsm.VolumePut, endpointstest.RegisterRequest(v))
		})
		w.expect("a release", 2, func() {
			endpointstest.Must(w.Server, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
				NodeID:   "n007",
				SecretID: endpointstest.SecretOf("n007"),
				Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v007", AllocID: "b007"}},
			})
		}, "volume v007")
		w.expect("an allocation runs", 3, func() {
			endpointstest.Must(w.Server, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
				NodeID:   "n009",
				SecretID: endpointstest.SecretOf("n009"),
				Allocs:   []*structs.AllocClientUpdate{{ID: "a009", ClientStatus: structs.AllocRunning}},
			})
		}, "alloc a009", "volume v009")
	})
}

// TestBlockingQuery_AskedAgainWaits: a write of other rows between an answer and the next query does not
// answer that query. A deletion does.
func TestBlockingQuery_AskedAgainWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		s.AddNode("n1", "a")
		s.AddVolume("v")
		s.AddVolume("w")
		s.AddAllocs("a", "n1", 3)
		s.Claim("v", "a00000", "n1")
		ask := structs.CSIVolumeGetRequest{
			ID: "v",
			QueryOptions: structs.QueryOptions{
				MinIndex: 1,
				MaxWait:  time.Minute,
			},
		}
		took := func() time.Duration {
			t.Helper()
			start := time.Now()
			ask.MinIndex = endpointstest.Must(s, structs.CSIVolumeGet, &ask).Index
			return time.Since(start)
		}
		if took() != 0 {
			t.Error("the first answer does not come at once")
		}
		s.Claim("w", "a00001", "n1")
		if got := took(); got != time.Minute {
			t.Errorf("a claim on another volume answers after %s, want %s", got, time.Minute)
		}
		s.Claim("w", "a00002", "n1")
		if got := took(); got != time.Minute {
			t.Errorf("a second claim on it answers after %s, want %s", got, time.Minute)
		}
		endpointstest.Must(s, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a00000"}},
		})
		if got := took(); got != 0 {
			t.Errorf("a release answers after %s, want at once", got)
		}
		if got := took(); got != time.Minute {
			t.Errorf("the release answers again after %s, want %s", got, time.Minute)
		}
		// A query for a missing row waits in the same way.
		ask = structs.CSIVolumeGetRequest{
			ID: "x",
			QueryOptions: structs.QueryOptions{
				MinIndex: s.Store.Index(),
				MaxWait:  time.Minute,
			},
		}
		start := time.Now()
		endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeGet, &ask)
		s.Claim("v", "a00000", "n1")
		endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeGet, &ask)
		if got := time.Since(start); got != 2*time.Minute {
			t.Errorf("two queries for a missing row took %s, want %s", got, 2*time.Minute)
		}
	})
}

// TestClaimGet_ReleaseWakesOneNode: one node with a claim in the queue of a volume learns of its grant.
func TestClaimGet_ReleaseWakesOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		w, stop := newWatchers(s)
		defer stop()
		addSingleNodeVolume(s)
		const waiting = 20
		var allocs []string
		for i := range waiting {
			node := fmt.Sprintf("n%03d", i)
			endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration(node))
			allocs = append(allocs, s.AddAllocs(fmt.Sprintf("a%03d-", i), node, 1)[0])
		}
		claim := func(i int) *structs.CSIClaim {
			node := fmt.Sprintf("n%03d", i)
			return endpointstest.Must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
				NodeID:   node,
				SecretID: endpointstest.SecretOf(node),
				Claims: []*structs.CSIClaim{{
					VolumeID:       "one",
					AllocID:        allocs[i],
					Mode:           structs.ClaimWrite,
					AccessMode:     structs.CSISingleNodeWriter,
					AttachmentMode: structs.CSIFileSystem,
				}},
			}).Claims[0]
		}
		for i := range waiting {
			want := structs.ClaimWaiting
			if i == 0 {
				want = structs.ClaimGranted
			}
			if got := claim(i); got.State != want {
				t.Fatalf("claim %d is %s", i, got.State)
			}
		}
		for i := range waiting {
			node := fmt.Sprintf("n%03d", i)
			repeatQuery(w, node, structs.CSIClaimGet, structs.CSIClaimGetRequest{
				VolumeID: "one",
				AllocID:  allocs[i],
				NodeID:   node,
				SecretID: endpointstest.SecretOf(node),
			})
		}
		for i := range 3 {
			node := fmt.Sprintf("n%03d", i)
			next := fmt.Sprintf("n%03d", i+1)
			w.expect("a release by "+node, 2, func() {
				endpointstest.Must(s, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
					NodeID:   node,
					SecretID: endpointstest.SecretOf(node),
					Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: "one", AllocID: allocs[i]}},
				})
			}, next)
		}
	})
}

// addSingleNodeVolume registers the volume "one", for one writer.
func addSingleNodeVolume(s *endpointstest.Server) {
	s.T.Helper()
	v := endpointstest.ReadyVolume("one")
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}}
	endpointstest.MustPropose(s, fsm.VolumePut, endpointstest.RegisterRequest(v))
}

func TestBlockingQuery_ListsWakeForTheirRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		w, stop := newWatchers(s)
		defer stop()
		instance := func(plugin string, healthy bool) {
			endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
				NodeID:   "n1",
				SecretID: endpointstest.SecretOf("n1"),
				Upserts: []*structs.CSIPluginInstance{
					{
						Kind:   structs.CSIKindNode,
						NodeID: "n1",
						CSIInfo: structs.CSIInfo{
							PluginID: plugin,
							Healthy:  healthy,
							NodeInfo: &structs.CSINodeInfo{ID: "x"},
						},
					}},
			})
		}
		endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration("n1"))
		for _, p := range []string{"p1", "p2"} {
			instance(p, true)
		}
		put := func(id, plugin string) {
			v := endpointstest.ReadyVolume(id)
			v.PluginID = plugin
			endpointstest.MustPropose(s, fsm.VolumePut, endpointstest.RegisterRequest(v))
		}
		put("a-1", "p1")
		put("b-1", "p2")
		for _, p := range []string{"p1", "p2"} {
			repeatQuery(w, p, structs.CSIPluginGet, structs.CSIPluginGetRequest{ID: p})
		}
		for _, prefix := range []string{"a-", "b-"} {
			repeatQuery(w, prefix, structs.CSIVolumeList,
				structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{Prefix: prefix}})
		}
		repeatQuery(w, "filtered", structs.CSIVolumeList,
			structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{Filter: `ID == "b-9"`}})
		repeatQuery(w, "page", structs.CSIVolumeList,
			structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{PerPage: 1}})
		w.expect("a volume", 3, func() { put("a-2", "p1") }, "a-", "page")
		w.expect("another", 3, func() { put("a-3", "p1") }, "a-")
		w.expect("a volume that passes a filter", 3, func() { put("b-9", "p2") }, "b-", "filtered")
		w.expect("health", 5, func() { instance("p2", false) }, "p2", "b-", "filtered")
		w.expect("the same again", 0, func() { instance("p2", false) })
	})
}

// TestBlockingQuery_WaitsWithoutRows: the first allocation of another node, or the first claim of another
// volume, wakes no query without rows.
func TestBlockingQuery_WaitsWithoutRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		w, stop := newWatchers(s)
		defer stop()
		for i := range watched {
			node := fmt.Sprintf("n%03d", i)
			volume := fmt.Sprintf("v%03d", i)
			endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration(node))
			repeatQuery(w, "allocs "+node, structs.NodeClientAllocs, structs.NodeGetRequest{
				NodeID:   node,
				SecretID: endpointstest.SecretOf(node),
			})
			v := endpointstest.ReadyVolume(volume)
			endpointstest.MustPropose(s, fsm.VolumePut, endpointstest.RegisterRequest(v))
			repeatQuery(w, "volume "+volume, structs.CSIVolumeGet, structs.CSIVolumeGetRequest{ID: volume})
		}
		for i := range 5 {
			node := fmt.Sprintf("n%03d", 7*i)
			volume := fmt.Sprintf("v%03d", 6*i)
			alloc := fmt.Sprintf("a%03d", i)
			// One, and the neighbour from which its key branches off.
			w.expect("the first allocation of a node", 2, func() { s.AddAlloc(alloc, node) }, "allocs "+node)
			w.expect("the first claim of a volume", 2, func() { s.Claim(volume, alloc, node) }, "volume "+volume)
		}
	})
}

// TestBlockingQuery_RestoreWakesAll: an older state that replaces the present one wakes all queries, so that
// they continue with its index.
func TestBlockingQuery_RestoreWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		s.AddNode("n1", "a")
		s.AddVolume("v")
		var saved bytes.Buffer
		if err := s.Store.Read().Save(&saved); err != nil {
			t.Fatal(err)
		}
		s.AddVolume("w")
		s.AddAllocs("a", "n1", 1)
		w, stop := newWatchers(s)
		defer stop()
		type answer struct {
			prefix string
			resp   *structs.CSIVolumeListResponse
			took   time.Duration
		}
		answers := make(chan answer, 2)
		for _, prefix := range []string{"w", "v"} {
			w.wg.Go(func() {
				start := time.Now()
				resp, err := rpc.Call(w.ctx, s.RPC, structs.CSIVolumeList, &structs.CSIVolumeListRequest{
					QueryOptions: structs.QueryOptions{
						MinIndex: s.Store.Index(),
						MaxWait:  time.Minute,
						Prefix:   prefix,
					},
				})
				if err != nil {
					t.Error(err)
					return
				}
				answers <- answer{prefix, resp, time.Since(start)}
			})
		}
		synctest.Wait()
		before := s.Store.Index()
		if err := s.Store.Load(&saved); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got := <-answers
			want := map[bool]int{true: 1, false: 0}[got.prefix == "v"]
			if got.took != 0 || len(got.resp.Volumes) != want || got.resp.Index >= before {
				t.Errorf("the list %q: %d rows at %d after %s", got.prefix, len(got.resp.Volumes),
					got.resp.Index, got.took)
			}
		}
	})
}
