package statebench

import (
	"fmt"
	"testing"

	"berth/bench/peer/shape"
	"github.com/hashicorp/go-memdb"
	"github.com/hashicorp/nomad/nomad/state"
	"github.com/hashicorp/nomad/nomad/structs"
)

var ns = []int{10, 100, 1000, 10000}
var rs = []int{1, 10, 100, 1000, 10000}

func must(b testing.TB, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// a1. update of an existing node: only CSIInfo.UpdateTime changes.
func BenchmarkFingerprint(b *testing.B) {
	for _, n := range ns {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := shape.NewState(true)
			shape.Fill{Nodes: n, SharedVolClaims: -1}.Do(s)
			idx := uint64(100)
			nodes := make([]*structs.Node, b.N)
			for i := range nodes {
				nodes[i] = shape.Node(i%n, i+1)
			}
			tm := startTimer(b)
			defer tm.done(1)
			for i := 0; i < b.N; i++ {
				idx++
				must(b, s.UpsertNode(structs.NodeRegisterRequestType, idx, nodes[i], state.NodeUpsertWithNodePool))
			}
		})
	}
}

// a1'. the same, on a node that has no CSI plugin while the fleet does.
func BenchmarkFingerprintNoPlugin(b *testing.B) {
	for _, n := range ns {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := shape.NewState(true)
			shape.Fill{Nodes: n, SharedVolClaims: -1}.Do(s)
			idx := uint64(100)
			must(b, s.UpsertNode(structs.NodeRegisterRequestType, idx, shape.BareNode(1<<24)))
			tm := startTimer(b)
			defer tm.done(1)
			for i := 0; i < b.N; i++ {
				idx++
				nd := shape.BareNode(1 << 24)
				must(b, s.UpsertNode(structs.NodeRegisterRequestType, idx, nd))
			}
		})
	}
}

// a3. whole-fleet boot: register N nodes one after the other into an empty store.
func BenchmarkFleetBoot(b *testing.B) {
	for _, n := range ns {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			tm := startTimer(b)
			defer tm.done(n)
			for k := 0; k < b.N; k++ {
				tm.stop()
				s := shape.NewState(true)
				nodes := make([]*structs.Node, n)
				for i := range nodes {
					nodes[i] = shape.Node(i, 0)
				}
				tm.start()
				for i := range nodes {
					must(b, s.UpsertNode(structs.NodeRegisterRequestType, uint64(i+10), nodes[i]))
				}
			}
		})
	}
}

// b. plugin read with denormalization: what CSIPlugin.Get does.
func BenchmarkPluginGet(b *testing.B) {
	for _, n := range ns {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := shape.NewState(true)
			shape.Fill{Nodes: n, SharedVolClaims: -1, PluginAllocs: true}.Do(s)
			tm := startTimer(b)
			defer tm.done(1)
			for i := 0; i < b.N; i++ {
				ws := memdb.NewWatchSet()
				snap, err := s.Snapshot()
				must(b, err)
				p, err := snap.CSIPluginByID(ws, shape.PluginID)
				must(b, err)
				p, err = snap.CSIPluginDenormalize(ws, p.Copy())
				must(b, err)
				if len(p.Allocations) != n {
					b.Fatal(len(p.Allocations))
				}
			}
		})
	}
}

// c1. one more reader claims a multi-reader volume that holds R, and releases:
// two claim transactions per op, each at R or R+1 claims.
func BenchmarkClaim(b *testing.B) {
	for _, r := range rs {
		b.Run(fmt.Sprintf("R=%d", r), func(b *testing.B) {
			s := shape.NewState(true)
			const nodes = 1000
			shape.Fill{Nodes: nodes, SharedVolClaims: r, Allocs: r + 1}.Do(s)
			c := shape.Claim(r, nodes, structs.CSIVolumeClaimRead)
			rel := *c
			rel.State = structs.CSIVolumeClaimStateReadyToFree
			idx := uint64(100)
			tm := startTimer(b)
			defer tm.done(2)
			for i := 0; i < b.N; i++ {
				idx++
				cc := *c
				must(b, shape.DoClaim(s, idx, shape.NS, shape.MultiReaderVol, &cc))
				idx++
				rr := rel
				must(b, shape.DoClaim(s, idx, shape.NS, shape.MultiReaderVol, &rr))
			}
		})
	}
}

// c2. claim + release of a single-writer volume with V volumes in the store.
func BenchmarkClaimWriter(b *testing.B) {
	for _, v := range []int{10, 10000} {
		b.Run(fmt.Sprintf("V=%d", v), func(b *testing.B) { claimWriter(b, v) })
	}
}

func claimWriter(b *testing.B, vols int) {
	const nodes = 1000
	s := shape.NewState(true)
	shape.Fill{Nodes: nodes, Volumes: vols, SharedVolClaims: -1, Allocs: 10000}.Do(s)
	idx := uint64(100)
	tm := startTimer(b)
	defer tm.done(2)
	for i := 0; i < b.N; i++ {
		c := shape.Claim(i%10000, nodes, structs.CSIVolumeClaimWrite)
		id := shape.VolID(i % vols)
		idx++
		must(b, shape.DoClaim(s, idx, shape.NS, id, c))
		rel := *c
		rel.State = structs.CSIVolumeClaimStateReadyToFree
		idx++
		must(b, shape.DoClaim(s, idx, shape.NS, id, &rel))
	}
}

// c3. R readers claim one after the other, from empty.
func BenchmarkClaimStorm(b *testing.B) {
	for _, r := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("R=%d", r), func(b *testing.B) {
			const nodes = 1000
			tm := startTimer(b)
			defer tm.done(r)
			for k := 0; k < b.N; k++ {
				tm.stop()
				s := shape.NewState(true)
				shape.Fill{Nodes: nodes, SharedVolClaims: 0, Allocs: r}.Do(s)
				tm.start()
				for i := 0; i < r; i++ {
					must(b, shape.DoClaim(s, uint64(100+i), shape.NS, shape.MultiReaderVol,
						shape.Claim(i, nodes, structs.CSIVolumeClaimRead)))
				}
			}
		})
	}
}

// d1. list 10k volumes: what CSIVolume.List does for each (copy, denormalize, stub).
func BenchmarkVolumeList(b *testing.B) {
	for _, cl := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("claims=%d", cl), func(b *testing.B) {
			const vols = 10000
			s := shape.NewState(true)
			shape.Fill{Nodes: 1000, Volumes: vols, ClaimsPerVol: cl, SharedVolClaims: -1}.Do(s)
			tm := startTimer(b)
			defer tm.done(1)
			for i := 0; i < b.N; i++ {
				ws := memdb.NewWatchSet()
				snap, err := s.Snapshot()
				must(b, err)
				it, err := snap.CSIVolumesByNamespace(ws, shape.NS, "")
				must(b, err)
				out := []*structs.CSIVolListStub{}
				for raw := it.Next(); raw != nil; raw = it.Next() {
					v, err := snap.CSIVolumeDenormalizePlugins(ws, raw.(*structs.CSIVolume).Copy())
					must(b, err)
					out = append(out, v.Stub())
				}
				if len(out) != vols {
					b.Fatal(len(out))
				}
			}
		})
	}
}

// a4. update of one node when the store holds P plugins of 1000 nodes each
// (the node runs only one): does an unrelated plugin cost?
func BenchmarkFingerprintManyPlugins(b *testing.B) {
	for _, plugins := range []int{16} {
		b.Run(fmt.Sprintf("P=%d", plugins), func(b *testing.B) {
			s := shape.NewState(true)
			shape.Fill{Nodes: 1000, SharedVolClaims: -1}.Do(s)
			for p := 1; p < plugins; p++ {
				pl := shape.Plugin(1000)
				pl.ID = fmt.Sprintf("plug%03d", p)
				// other nodes, not ours
				delete(pl.Nodes, shape.NodeID(0))
				must(b, s.UpsertCSIPlugin(uint64(p+10), pl))
			}
			idx := uint64(1000)
			tm := startTimer(b)
			defer tm.done(1)
			for i := 0; i < b.N; i++ {
				idx++
				must(b, s.UpsertNode(structs.NodeRegisterRequestType, idx, shape.Node(0, i+1)))
			}
		})
	}
}

// f1. node status change (heartbeat missed -> down -> ready): UpdateNodeStatus.
func BenchmarkNodeStatus(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := shape.NewState(true)
			shape.Fill{Nodes: n, SharedVolClaims: -1}.Do(s)
			idx := uint64(100)
			tm := startTimer(b)
			defer tm.done(1)
			for i := 0; i < b.N; i++ {
				idx++
				st := structs.NodeStatusDown
				if i&1 == 1 {
					st = structs.NodeStatusReady
				}
				must(b, shape.DoNodeStatus(s, idx, shape.NodeID((i/2)%n), st))
			}
		})
	}
}

// f1'. what each heartbeat (and each Node.Register) reply does: count the nodes.
func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := shape.NewState(true)
			shape.Fill{Nodes: n, SharedVolClaims: -1}.Do(s)
			tm := startTimer(b)
			defer tm.done(1)
			for i := 0; i < b.N; i++ {
				snap, err := s.Snapshot()
				must(b, err)
				it, err := snap.Nodes(memdb.NewWatchSet())
				must(b, err)
				c := 0
				for raw := it.Next(); raw != nil; raw = it.Next() {
					c++
				}
				if c != n {
					b.Fatal(c)
				}
			}
		})
	}
}

// f3. ClientUpdate: the client reports an alloc terminal (UpdateAllocsFromClient).
func BenchmarkAllocEnds(b *testing.B) {
	for _, n := range []int{10, 10000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) { allocEnds(b, n) })
	}
}

func allocEnds(b *testing.B, allocs int) {
	const nodes = 1000
	s := shape.NewState(true)
	shape.Fill{Nodes: nodes, SharedVolClaims: -1, Allocs: allocs}.Do(s)
	must(b, s.UpsertJobSummary(50, &structs.JobSummary{JobID: shape.JobID, Namespace: shape.NS,
		Summary: map[string]structs.TaskGroupSummary{shape.TaskGroup: {Running: allocs}}}))
	idx := uint64(100)
	tm := startTimer(b)
	defer tm.done(1)
	for i := 0; i < b.N; i++ {
		idx++
		st := structs.AllocClientStatusFailed
		if (i/allocs)&1 == 1 {
			st = structs.AllocClientStatusRunning
		}
		up := &structs.Allocation{ID: shape.AllocID(i % allocs), NodeID: shape.NodeID((i % allocs) % nodes),
			ClientStatus: st, JobID: shape.JobID, Namespace: shape.NS, TaskGroup: shape.TaskGroup}
		must(b, s.UpdateAllocsFromClient(structs.AllocClientUpdateRequestType, idx, []*structs.Allocation{up}))
	}
}

// The node of an allocation of the plugin's own job reports a change: it still runs.
func BenchmarkAllocUpdate(b *testing.B) {
	for _, n := range ns {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := shape.NewState(true)
			shape.Fill{Nodes: n, SharedVolClaims: -1, PluginJob: true, PluginAllocs: true}.Do(s)
			idx := uint64(100)
			tm := startTimer(b)
			defer tm.done(1)
			for i := 0; i < b.N; i++ {
				idx++
				up := &structs.Allocation{ID: shape.UUID("plugalloc", i%n), NodeID: shape.NodeID(i % n), ClientStatus: structs.AllocClientStatusRunning,
					ClientDescription: fmt.Sprint(i), JobID: shape.JobID, Namespace: shape.NS, TaskGroup: shape.TaskGroup}
				must(b, s.UpdateAllocsFromClient(structs.AllocClientUpdateRequestType, idx, []*structs.Allocation{up}))
			}
		})
	}
}
