package state_test

import (
	"fmt"
	"io"
	"runtime/debug"
	"testing"

	"berth/bench/shape"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/test/kit"
)

// These benchmarks have the names of those in bench/peer/statebench, for a comparison of the metric ns/unit.
// Run them for a time (-benchtime=1s), so that they include the garbage collector. Each store is filled once.

var benchSizes = []int{10, 100, 1000, 10000, 100000}

// bySize runs a benchmark at each size.
func bySize(b *testing.B, variable string, sizes []int, at func(b *testing.B, n int)) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("%s=%d", variable, n), func(b *testing.B) {
			at(b, n)
		})
	}
}

// BenchmarkFingerprint is one known node that reports a change of its plugin: by registering whole, as the
// peer's nodes do.
func BenchmarkFingerprint(b *testing.B) {
	bySize(b, "N", benchSizes, func(b *testing.B, n int) {
		s := benchFill{nodes: n, shared: -1}.store(b)
		kit.MeasurePrepared(b, 1, kit.AtOnce,
			func(i int) *structs.NodeRegisterRequest { return shape.Register(i%n, i+1, shape.Plugin) },
			s.register)
	})
}

func (b *benchStore) register(r *structs.NodeRegisterRequest) {
	b.do(func(tx *state.WriteTx) error { return state.NodeRegister(tx, r) })
}

// BenchmarkFingerprintDiff is the same change as berth's nodes send it: the one instance that changed.
func BenchmarkFingerprintDiff(b *testing.B) { benchDiff(b, 1<<30) }

// BenchmarkFingerprintDiffOfTen updates always the same ten nodes in fleets of any size. Their rows stay in
// the cache, so the remaining growth is that of the deeper tree and the larger heap.
func BenchmarkFingerprintDiffOfTen(b *testing.B) { benchDiff(b, 10) }

func benchDiff(b *testing.B, most int) {
	bySize(b, "N", benchSizes, func(b *testing.B, n int) {
		s := benchFill{nodes: n, shared: -1}.store(b)
		kit.MeasurePrepared(b, 1, kit.AtOnce, func(i int) *structs.NodeUpdateCSIRequest {
			k := i % min(n, most)
			return &structs.NodeUpdateCSIRequest{
				NodeID:  shape.UUID("node", k),
				Upserts: []*structs.CSIPluginInstance{shape.Instance(shape.Plugin, k, i+1)},
			}
		}, func(r *structs.NodeUpdateCSIRequest) {
			s.do(func(tx *state.WriteTx) error { return state.NodeUpdateCSI(tx, r) })
		})
	})
}

// BenchmarkFingerprintNoPlugin is a node without any plugin in a fleet that has one.
func BenchmarkFingerprintNoPlugin(b *testing.B) {
	bySize(b, "N", benchSizes, func(b *testing.B, n int) {
		s := benchFill{nodes: n, shared: -1}.store(b)
		s.register(shape.Register(1<<24, 0))
		kit.MeasurePrepared(b, 1, kit.AtOnce, func(i int) *structs.NodeRegisterRequest {
			r := shape.Register(1<<24, i)
			r.Node.Attributes["unique.rev"] = fmt.Sprint(i)
			return r
		}, s.register)
	})
}

// BenchmarkFingerprintManyPlugins is one node's change among 1,000 nodes with 16 plugins each.
func BenchmarkFingerprintManyPlugins(b *testing.B) {
	b.Run("P=16", func(b *testing.B) {
		const n = 1000
		ids := []string{shape.Plugin}
		for p := 1; p < 16; p++ {
			ids = append(ids, fmt.Sprintf("plug%03d", p))
		}
		s := benchFill{
			nodes:   n,
			shared:  -1,
			plugins: ids,
		}.store(b)
		for i := range n { // those that are measured report one plugin, as the peer's do
			s.register(shape.Register(n+i, 0, shape.Plugin))
		}
		kit.MeasurePrepared(b, 1, kit.AtOnce,
			func(i int) *structs.NodeRegisterRequest {
				return shape.Register(n+i%n, i+1, shape.Plugin)
			},
			s.register)
	})
}

// BenchmarkFleetBoot registers a whole fleet into an empty store, an entry and a transaction each.
func BenchmarkFleetBoot(b *testing.B) { benchBoot(b, 1) }

// BenchmarkFleetBootBatched is the same in batches of 64 entries, as a log under load applies them.
func BenchmarkFleetBootBatched(b *testing.B) { benchBoot(b, 64) }

func benchBoot(b *testing.B, batch int) {
	bySize(b, "N", benchSizes, func(b *testing.B, n int) {
		reqs := make([]*structs.NodeRegisterRequest, n)
		m := kit.BeginMeter(b)
		for m.Loop() {
			m.Pause()
			s := state.New()
			for i := range reqs {
				reqs[i] = shape.Register(i, 0, shape.Plugin)
			}
			m.Resume()
			for i := 0; i < n; {
				t := s.Begin()
				for end := min(n, i+batch); i < end; i++ {
					_ = t.Apply(uint64(i+10), func(tx *state.WriteTx) error {
						return state.NodeRegister(tx, reqs[i])
					})
				}
				t.Commit()
			}
			m.Round()
		}
		m.End(n)
	})
}

// BenchmarkClaim is one more reader that claims a volume which R hold, and releases it: two entries.
func BenchmarkClaim(b *testing.B) {
	bySize(b, "R", append([]int{1}, benchSizes...), func(b *testing.B, r int) {
		s := benchFill{
			nodes:  1000,
			shared: r,
			allocs: r + 1,
		}.store(b)
		kit.MeasurePrepared(b, 2, kit.AtOnce,
			func(int) *structs.CSIClaim { return shape.Claim(shape.SharedVolume, r, structs.ClaimRead) },
			s.claimAndRelease)
	})
}

// BenchmarkClaimWriter is the only writer of one of V volumes that claims and releases it.
func BenchmarkClaimWriter(b *testing.B) {
	bySize(b, "V", benchSizes, func(b *testing.B, v int) {
		s := benchFill{
			nodes:   1000,
			volumes: v,
			shared:  -1,
			allocs:  10000,
		}.store(b)
		kit.MeasurePrepared(b, 2, kit.AtOnce, func(i int) *structs.CSIClaim {
			return shape.Claim(shape.VolumeID(i%v), i%10000, structs.ClaimWrite)
		}, s.claimAndRelease)
	})
}

func (b *benchStore) claimAndRelease(c *structs.CSIClaim) {
	key := c.Key()
	b.do(func(tx *state.WriteTx) error {
		return csi.VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{c}})
	})
	b.do(func(tx *state.WriteTx) error {
		return state.VolumeUnpublish(tx, &structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{key}})
	})
}

// BenchmarkClaimStorm makes R readers claim one volume one after the other, with an entry and a transaction
// each.
func BenchmarkClaimStorm(b *testing.B) { benchStorm(b, 1) }

// BenchmarkClaimStormBatched is the same in batches of 64 entries.
func BenchmarkClaimStormBatched(b *testing.B) { benchStorm(b, 64) }

func benchStorm(b *testing.B, batch int) {
	bySize(b, "R", []int{10, 100, 1000, 10000}, func(b *testing.B, r int) {
		s, claims := benchFill{
			nodes:  1000,
			shared: 0,
			allocs: r,
		}.store(b), make([]*structs.CSIClaim, r)
		m := kit.BeginMeter(b)
		for m.Loop() {
			m.Pause()
			s.many(r, func(tx *state.WriteTx, i int) error { // the first round has no claims to release
				claims[i] = shape.Claim(shape.SharedVolume, i, structs.ClaimRead)
				return state.VolumeUnpublish(tx,
					&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{claims[i].Key()}})
			})
			m.Resume()
			for i := 0; i < r; {
				t := s.s.Begin()
				for end := min(r, i+batch); i < end; i++ {
					s.index++
					_ = t.Apply(s.index, func(tx *state.WriteTx) error {
						return csi.VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: claims[i : i+1 : i+1]})
					})
				}
				t.Commit()
			}
			m.Round()
		}
		m.End(r)
	})
}

// BenchmarkPluginGet is a plugin put together with its instances and allocations.
func BenchmarkPluginGet(b *testing.B) {
	bySize(b, "N", []int{10, 100, 1000, 10000}, func(b *testing.B, n int) {
		s := benchFill{
			nodes:        n,
			shared:       -1,
			pluginAllocs: true,
		}.store(b)
		kit.MeasureRepeated(b, func() {
			d := state.PluginDetail(s.s.Read(), shape.Plugin)
			if len(d.Allocations) != n || len(d.Nodes) != n {
				b.Fatal(len(d.Allocations))
			}
		})
	})
}

// BenchmarkPluginPage is the first 100 of a plugin's instances.
func BenchmarkPluginPage(b *testing.B) {
	bySize(b, "N", []int{1000, 10000, 100000}, func(b *testing.B, n int) {
		s := benchFill{
			nodes:        n,
			shared:       -1,
			pluginAllocs: true,
		}.store(b)
		kit.MeasureRepeated(b, func() {
			if d, next := state.PluginPage(s.s.Read(), shape.Plugin, nil, 100); len(d.Allocations) != 100 ||
				next == nil {
				b.Fatal(len(d.Allocations))
			}
		})
	})
}

// BenchmarkVolumeList makes the stubs of 10,000 volumes.
func BenchmarkVolumeList(b *testing.B) {
	bySize(b, "claims", []int{0, 1, 10}, func(b *testing.B, each int) {
		const n = 10000
		s := benchFill{
			nodes:      1000,
			volumes:    n,
			claimsEach: each,
			shared:     -1,
			allocs:     n,
		}.store(b)
		kit.MeasureRepeated(b, func() {
			tx, out := s.s.Read(), []*structs.CSIVolumeListStub{}
			stub := csi.VolumeStubs(tx)
			for v := range state.Volumes(tx, structs.DefaultNamespace, "") {
				s := new(structs.CSIVolumeListStub)
				stub(v, s)
				out = append(out, s)
			}
			if len(out) != n || out[0].CurrentReaders != each {
				b.Fatal(len(out))
			}
		})
	})
}

// BenchmarkAllocUpdate reports a change of an allocation of a plugin's job.
func BenchmarkAllocUpdate(b *testing.B) {
	bySize(b, "N", benchSizes, func(b *testing.B, n int) {
		s := benchFill{
			nodes:        n,
			shared:       -1,
			pluginAllocs: true,
		}.store(b)
		kit.MeasurePrepared(b, 1, kit.AtOnce, func(i int) *structs.AllocClientUpdate {
			return &structs.AllocClientUpdate{
				ID:                shape.UUID("plugalloc", i%n),
				ClientStatus:      structs.AllocRunning,
				ClientDescription: fmt.Sprint(i),
			}
		}, s.report)
	})
}

func (b *benchStore) report(u *structs.AllocClientUpdate) {
	b.do(func(tx *state.WriteTx) error {
		return state.AllocsClientUpdate(tx, &structs.AllocsClientUpdateRequest{
			Allocs: []*structs.AllocClientUpdate{u},
		})
	})
}

// BenchmarkAllocEnds ends an allocation of a large job: it evaluates the job and frees capacity. Between the
// measured parts the ended allocations run again, and their evaluations are deleted.
func BenchmarkAllocEnds(b *testing.B) {
	bySize(b, "N", benchSizes, func(b *testing.B, n int) {
		const nodes = 1000
		s := benchFill{
			nodes:  nodes,
			shared: -1,
			allocs: n,
		}.store(b)
		kit.MeasurePrepared(b, 1, min(n, kit.AtOnce), func(i int) *structs.AllocClientUpdate {
			s.many(1, func(tx *state.WriteTx, _ int) error {
				for e := range state.EvalsByJob(tx.ReadTx, structs.DefaultNamespace, shape.JobID) {
					schema.Evals.Delete(tx, e)
				}
				a := shape.Alloc(i%n, nodes)
				state.PutAlloc(tx, state.Alloc(tx.ReadTx, a.ID), a)
				return nil
			})
			return &structs.AllocClientUpdate{ID: shape.UUID("alloc", i%n), ClientStatus: structs.AllocFailed}
		}, s.report)
		if e := schema.EvalsByJob.First(s.s.Read(), structs.DefaultNamespace, shape.JobID); e == nil ||
			e.TriggeredBy != structs.TriggerAllocFailure {
			b.Fatal("nothing has ended")
		}
	})
}

// BenchmarkNodeStatus takes a node down and up again, an entry each.
func BenchmarkNodeStatus(b *testing.B) {
	bySize(b, "N", benchSizes, func(b *testing.B, n int) {
		s := benchFill{nodes: n, shared: -1}.store(b)
		kit.MeasurePrepared(b, 1, kit.AtOnce, func(i int) *structs.NodeStatusUpdate {
			status := []string{structs.NodeDown, structs.NodeReady}[i&1]
			return &structs.NodeStatusUpdate{
				NodeIDs: []string{shape.UUID("node", i/2%n)},
				Status:  status,
			}
		}, func(u *structs.NodeStatusUpdate) {
			s.do(func(tx *state.WriteTx) error { return state.NodeStatus(tx, u) })
		})
	})
}

// BenchmarkSnapshot writes and restores 10,000 nodes, 10,000 volumes and 100,000 claims.
func BenchmarkSnapshot(b *testing.B) {
	s := benchFill{
		nodes:      10000,
		volumes:    10000,
		claimsEach: 10,
		shared:     -1,
		allocs:     100000,
	}.store(b)
	rows := countRows(s.s)
	b.Run("write", func(b *testing.B) {
		m := kit.BeginMeter(b)
		for m.Loop() {
			if err := s.s.Save(io.Discard); err != nil {
				b.Fatal(err)
			}
			m.Round()
		}
		m.End(rows)
	})
	b.Run("restore", func(b *testing.B) {
		var buf memory
		if err := s.s.Save(&buf); err != nil {
			b.Fatal(err)
		}
		m := kit.BeginMeter(b)
		for m.Loop() {
			r := buf
			if err := loadAsServer(state.New(), &r); err != nil {
				b.Fatal(err)
			}
			m.Round()
		}
		m.End(rows)
		b.ReportMetric(float64(len(buf.b)), "bytes")
	})
}

// loadAsServer loads a snapshot file with the GOGC of servers.
func loadAsServer(s *state.Store, r io.Reader) error {
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	return s.Load(r)
}

// memory is a file that is kept in memory and read from its beginning by each copy.
type memory struct{ b []byte }

func (m *memory) Write(p []byte) (int, error) {
	m.b = append(m.b, p...)
	return len(p), nil
}

func (m *memory) Read(p []byte) (int, error) {
	if len(m.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.b)
	m.b = m.b[n:]
	return n, nil
}
