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

func must(b testing.TB, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// bySize runs a benchmark at each size.
func bySize(b *testing.B, variable string, sizes []int, at func(b *testing.B, n int)) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("%s=%d", variable, n), func(b *testing.B) { at(b, n) })
	}
}

// filled is a store with the index of its last entry.
type filled struct {
	b *testing.B
	*state.StateStore
	index uint64
}

func fill(b *testing.B, f shape.Fill) *filled {
	s := &filled{b, shape.NewState(true), 1000}
	f.Do(s.StateStore)
	return s
}

func (s *filled) register(n *structs.Node) {
	s.index++
	must(s.b, s.UpsertNode(structs.NodeRegisterRequestType, s.index, n, state.NodeUpsertWithNodePool))
}

func (s *filled) claim(volume string, c *structs.CSIVolumeClaim) {
	s.index++
	must(s.b, shape.DoClaim(s.StateStore, s.index, shape.NS, volume, c))
}

// pair is a claim of a volume and its release.
type pair struct {
	volume         string
	claim, release *structs.CSIVolumeClaim
}

func claimAndRelease(volume string, c *structs.CSIVolumeClaim) pair {
	r := *c
	r.State = structs.CSIVolumeClaimStateReadyToFree
	return pair{volume, c, &r}
}

func (s *filled) both(p pair) {
	s.claim(p.volume, p.claim)
	s.claim(p.volume, p.release)
}

func (s *filled) update(a *structs.Allocation) {
	s.index++
	must(s.b, s.UpdateAllocsFromClient(structs.AllocClientUpdateRequestType, s.index, []*structs.Allocation{a}))
}

// Update of an existing node: only CSIInfo.UpdateTime changes.
func BenchmarkFingerprint(b *testing.B) {
	bySize(b, "N", ns, func(b *testing.B, n int) {
		s := fill(b, shape.Fill{Nodes: n, SharedVolClaims: -1})
		perform(b, 1, atOnce, func(i int) *structs.Node {
			return shape.Node(i%n, i+1)
		}, s.register)
	})
}

// The same, on a node that has no CSI plugin while the fleet does.
func BenchmarkFingerprintNoPlugin(b *testing.B) {
	bySize(b, "N", ns, func(b *testing.B, n int) {
		s := fill(b, shape.Fill{Nodes: n, SharedVolClaims: -1})
		s.register(shape.BareNode(1 << 24))
		perform(b, 1, atOnce, func(i int) *structs.Node {
			nd := shape.BareNode(1 << 24)
			nd.Attributes["unique.rev"] = fmt.Sprint(i)
			return nd
		}, s.register)
	})
}

// A whole fleet boots: N nodes register one after the other into an empty store.
func BenchmarkFleetBoot(b *testing.B) {
	bySize(b, "N", ns, func(b *testing.B, n int) {
		nodes := make([]*structs.Node, n)
		m := begin(b)
		for m.loop() {
			m.pause()
			s := fill(b, shape.Fill{SharedVolClaims: -1})
			for i := range nodes {
				nodes[i] = shape.Node(i, 0)
			}
			m.resume()
			for _, nd := range nodes {
				s.register(nd)
			}
			m.round()
		}
		m.end(n)
	})
}

// A read of a plugin with its allocations, like CSIPlugin.Get.
func BenchmarkPluginGet(b *testing.B) {
	bySize(b, "N", ns, func(b *testing.B, n int) {
		s := fill(b, shape.Fill{
			Nodes:           n,
			SharedVolClaims: -1,
			PluginAllocs:    true,
		})
		repeat(b, func() {
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
		})
	})
}

// One more reader claims a multi-reader volume that holds R, and releases: two claim transactions, each at R
// or R+1 claims.
func BenchmarkClaim(b *testing.B) {
	bySize(b, "R", append([]int{1}, ns...), func(b *testing.B, r int) {
		const nodes = 1000
		s := fill(b, shape.Fill{
			Nodes:           nodes,
			SharedVolClaims: r,
			Allocs:          r + 1,
		})
		perform(b, 2, atOnce, func(int) pair {
			return claimAndRelease(shape.MultiReaderVol,
				shape.Claim(r, nodes, structs.CSIVolumeClaimRead))
		}, s.both)
	})
}

// Claim and release of a single-writer volume with V volumes in the store.
func BenchmarkClaimWriter(b *testing.B) {
	bySize(b, "V", ns, func(b *testing.B, v int) {
		const nodes = 1000
		s := fill(b, shape.Fill{
			Nodes:           nodes,
			Volumes:         v,
			SharedVolClaims: -1,
			Allocs:          10000,
		})
		perform(b, 2, atOnce, func(i int) pair {
			return claimAndRelease(shape.VolID(i%v),
				shape.Claim(i%10000, nodes, structs.CSIVolumeClaimWrite))
		}, s.both)
	})
}

// R readers claim one after the other, from empty.
func BenchmarkClaimStorm(b *testing.B) {
	bySize(b, "R", []int{10, 100, 1000}, func(b *testing.B, r int) {
		const nodes = 1000
		s := fill(b, shape.Fill{
			Nodes:           nodes,
			SharedVolClaims: 0,
			Allocs:          r,
		})
		claims := []pair(nil)
		m := begin(b)
		for m.loop() {
			m.pause()
			for _, c := range claims { // of the last time
				s.claim(c.volume, c.release)
			}
			claims = claims[:0]
			for i := range r {
				claims = append(claims, claimAndRelease(shape.MultiReaderVol,
					shape.Claim(i, nodes, structs.CSIVolumeClaimRead)))
			}
			m.resume()
			for _, c := range claims {
				s.claim(c.volume, c.claim)
			}
			m.round()
		}
		m.end(r)
	})
}

// A list of 10,000 volumes, with the steps of CSIVolume.List for each (copy, denormalize, stub).
func BenchmarkVolumeList(b *testing.B) {
	bySize(b, "claims", []int{0, 1, 10}, func(b *testing.B, each int) {
		const vols = 10000
		s := fill(b, shape.Fill{
			Nodes:           1000,
			Volumes:         vols,
			ClaimsPerVol:    each,
			SharedVolClaims: -1,
		})
		repeat(b, func() {
			ws := memdb.NewWatchSet()
			snap, err := s.Snapshot()
			must(b, err)
			it, err := snap.CSIVolumesByNamespace(ws, shape.NS, "")
			must(b, err)
			out := []*structs.CSIVolListStub{}
			for raw := it.Next(); raw != nil; raw = it.Next() {
				v, err := snap.CSIVolumeDenormalizePlugins(ws,
					raw.(*structs.CSIVolume).Copy())
				must(b, err)
				out = append(out, v.Stub())
			}
			if len(out) != vols {
				b.Fatal(len(out))
			}
		})
	})
}

// Update of one node when the store holds 16 plugins of 1,000 nodes each (the node runs only one): does an
// unrelated plugin cost?
func BenchmarkFingerprintManyPlugins(b *testing.B) {
	b.Run("P=16", func(b *testing.B) {
		s := fill(b, shape.Fill{Nodes: 1000, SharedVolClaims: -1})
		for p := 1; p < 16; p++ {
			pl := shape.Plugin(1000)
			pl.ID = fmt.Sprintf("plug%03d", p)
			delete(pl.Nodes, shape.NodeID(0)) // other nodes, not ours
			s.index++
			must(b, s.UpsertCSIPlugin(s.index, pl))
		}
		perform(b, 1, atOnce, func(i int) *structs.Node {
			return shape.Node(0, i+1)
		}, s.register)
	})
}

// A node's status changes (heartbeat missed: down, then ready).
func BenchmarkNodeStatus(b *testing.B) {
	bySize(b, "N", ns, func(b *testing.B, n int) {
		type change struct{ node, status string }
		s := fill(b, shape.Fill{Nodes: n, SharedVolClaims: -1})
		perform(b, 1, atOnce, func(i int) change {
			return change{shape.NodeID((i / 2) % n), []string{structs.NodeStatusDown, structs.NodeStatusReady}[i&1]}
		}, func(c change) {
			s.index++
			must(b, shape.DoNodeStatus(s.StateStore, s.index, c.node, c.status))
		})
	})
}

// The part of each heartbeat, and of each reply to a registration, that counts the nodes.
func BenchmarkHeartbeat(b *testing.B) {
	bySize(b, "N", ns, func(b *testing.B, n int) {
		s := fill(b, shape.Fill{Nodes: n, SharedVolClaims: -1})
		repeat(b, func() {
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
		})
	})
}

// A client reports an allocation terminal. Each pass over all of them resets them.
func BenchmarkAllocEnds(b *testing.B) {
	bySize(b, "N", []int{10, 10000}, func(b *testing.B, allocs int) {
		const nodes = 1000
		s := fill(b, shape.Fill{
			Nodes:           nodes,
			SharedVolClaims: -1,
			Allocs:          allocs,
		})
		s.index++
		must(b, s.UpsertJobSummary(s.index, &structs.JobSummary{
			JobID:     shape.JobID,
			Namespace: shape.NS,
			Summary:   map[string]structs.TaskGroupSummary{shape.TaskGroup: {Running: allocs}},
		}))
		perform(b, 1, atOnce, func(i int) *structs.Allocation {
			return update(shape.AllocID(i%allocs), i%allocs%nodes, []string{structs.AllocClientStatusFailed,
				structs.AllocClientStatusRunning}[i/allocs&1], "")
		}, s.update)
	})
}

// The node of an allocation of the plugin's own job reports a change: it still runs.
func BenchmarkAllocUpdate(b *testing.B) {
	bySize(b, "N", ns, func(b *testing.B, n int) {
		s := fill(b, shape.Fill{
			Nodes:           n,
			SharedVolClaims: -1,
			PluginJob:       true,
			PluginAllocs:    true,
		})
		perform(b, 1, atOnce, func(i int) *structs.Allocation {
			return update(shape.UUID("plugalloc", i%n), i%n, structs.AllocClientStatusRunning, fmt.Sprint(i))
		}, s.update)
	})
}

func update(id string, node int, status, description string) *structs.Allocation {
	return &structs.Allocation{
		ID:                id,
		NodeID:            shape.NodeID(node),
		ClientStatus:      status,
		ClientDescription: description,
		JobID:             shape.JobID,
		Namespace:         shape.NS,
		TaskGroup:         shape.TaskGroup,
	}
}
