package state

import (
	"fmt"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"berth/internal/benchshape"
	"berth/structs"
)

// The names of these benchmarks are those of bench/peer/statebench: a row of one is compared with the row
// of the same name of the other, in its metric ns/unit.

// meter measures a benchmark's loop by the clock and by the CPU time of the process, the collector's work
// included: on a machine with other users the latter says more.
type meter struct {
	b     *testing.B
	cpu   time.Duration
	since time.Duration
}

func begin(b *testing.B) *meter {
	runtime.GC() // what filling the store left behind is not the loop's
	b.ReportAllocs()
	b.ResetTimer()
	return &meter{b: b, since: cpuNow()}
}

func (m *meter) pause() {
	m.b.StopTimer()
	m.cpu += cpuNow() - m.since
}

func (m *meter) resume() {
	m.since = cpuNow()
	m.b.StartTimer()
}

// end reports per unit of work, of which each round does so many.
func (m *meter) end(units int) {
	m.pause()
	m.b.ReportMetric(float64(m.b.Elapsed().Nanoseconds())/float64(m.b.N)/float64(units), "ns/unit")
	m.b.ReportMetric(float64(m.cpu.Nanoseconds())/float64(m.b.N)/float64(units), "cpu-ns/unit")
}

func cpuNow() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var benchSizes = []int{10, 100, 1000, 10000, 100000}

// BenchmarkFingerprint is one known node that reports a change of its plugin: by registering whole, as the
// peer's nodes do.
func BenchmarkFingerprint(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFill{nodes: n, shared: -1}.store(b)
			reqs := make([]*structs.NodeRegisterRequest, b.N)
			for i := range reqs {
				reqs[i] = benchshape.Register(i%n, i+1, benchshape.Plugin)
			}
			m := begin(b)
			for _, r := range reqs {
				s.do(func(tx *Write) error { return NodeRegister(tx, r) })
			}
			m.end(1)
		})
	}
}

// BenchmarkFingerprintDiff is the same change as berth's nodes send it: the one instance that changed.
func BenchmarkFingerprintDiff(b *testing.B) { benchDiff(b, 1<<30) }

// BenchmarkFingerprintDiffOfTen is the same of always the same ten nodes in fleets of any size: what of its
// growth is left are the deeper tree and the larger heap, without rows that no cache holds.
func BenchmarkFingerprintDiffOfTen(b *testing.B) { benchDiff(b, 10) }

func benchDiff(b *testing.B, most int) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFill{nodes: n, shared: -1}.store(b)
			reqs := make([]*structs.NodeUpdateCSIRequest, b.N)
			for i := range reqs {
				k := i % min(n, most)
				reqs[i] = &structs.NodeUpdateCSIRequest{NodeID: benchshape.UUID("node", k),
					Upserts: []*structs.CSIPluginInstance{benchshape.Instance(benchshape.Plugin, k, i+1)}}
			}
			m := begin(b)
			for _, r := range reqs {
				s.do(func(tx *Write) error { return NodeUpdateCSI(tx, r) })
			}
			m.end(1)
		})
	}
}

// BenchmarkFingerprintNoPlugin is a node without any plugin in a fleet that has one.
func BenchmarkFingerprintNoPlugin(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFill{nodes: n, shared: -1}.store(b)
			s.do(func(tx *Write) error { return NodeRegister(tx, benchshape.Register(1<<24, 0)) })
			m := begin(b)
			for i := range b.N {
				r := benchshape.Register(1<<24, i)
				r.Node.Attributes["unique.rev"] = fmt.Sprint(i)
				s.do(func(tx *Write) error { return NodeRegister(tx, r) })
			}
			m.end(1)
		})
	}
}

// BenchmarkFingerprintManyPlugins is one node's change among 1,000 nodes with 16 plugins each.
func BenchmarkFingerprintManyPlugins(b *testing.B) {
	b.Run("P=16", func(b *testing.B) {
		const n = 1000
		ids := []string{benchshape.Plugin}
		for p := 1; p < 16; p++ {
			ids = append(ids, fmt.Sprintf("plug%03d", p))
		}
		s := benchFill{nodes: n, shared: -1, plugins: ids}.store(b)
		for i := range n { // those that are measured report one plugin, as the peer's do
			s.do(func(tx *Write) error { return NodeRegister(tx, benchshape.Register(n+i, 0, benchshape.Plugin)) })
		}
		m := begin(b)
		for i := range b.N {
			m.pause()
			r := benchshape.Register(n+i%n, i+1, benchshape.Plugin)
			m.resume()
			s.do(func(tx *Write) error { return NodeRegister(tx, r) })
		}
		m.end(1)
	})
}

// BenchmarkFleetBoot registers a whole fleet into an empty store, an entry and a transaction each.
func BenchmarkFleetBoot(b *testing.B) { benchBoot(b, 1) }

// BenchmarkFleetBootBatched is the same in batches of 64 entries, as a log under load applies them.
func BenchmarkFleetBootBatched(b *testing.B) { benchBoot(b, 64) }

func benchBoot(b *testing.B, batch int) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			reqs := make([]*structs.NodeRegisterRequest, n)
			for i := range reqs {
				reqs[i] = benchshape.Register(i, 0, benchshape.Plugin)
			}
			m := begin(b)
			for range b.N {
				s := New()
				for i := 0; i < n; {
					t := s.Batch()
					for end := min(n, i+batch); i < end; i++ {
						_ = t.Apply(uint64(i+10), func(tx *Write) error { return NodeRegister(tx, reqs[i]) })
					}
					t.Commit()
				}
			}
			m.end(n)
		})
	}
}

// BenchmarkClaim is one more reader that claims a volume which R hold, and releases it: two entries.
func BenchmarkClaim(b *testing.B) {
	for _, r := range []int{1, 10, 100, 1000, 10000, 100000} {
		b.Run(fmt.Sprintf("R=%d", r), func(b *testing.B) {
			s := benchFill{nodes: 1000, shared: r, allocs: r + 1}.store(b)
			m := begin(b)
			for range b.N {
				s.claimAndRelease(benchshape.SharedVolume, r, structs.ClaimRead)
			}
			m.end(2)
		})
	}
}

// BenchmarkClaimWriter is the only writer of one of V volumes that claims and releases it.
func BenchmarkClaimWriter(b *testing.B) {
	for _, v := range benchSizes {
		b.Run(fmt.Sprintf("V=%d", v), func(b *testing.B) {
			s := benchFill{nodes: 1000, volumes: v, shared: -1, allocs: 10000}.store(b)
			m := begin(b)
			for i := range b.N {
				s.claimAndRelease(benchshape.VolumeID(i%v), i%10000, structs.ClaimWrite)
			}
			m.end(2)
		})
	}
}

func (b *benchStore) claimAndRelease(volume string, alloc int, mode string) {
	c := benchshape.Claim(volume, alloc, mode)
	b.do(func(tx *Write) error {
		return VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{c}})
	})
	b.do(func(tx *Write) error {
		return VolumeUnpublish(tx, &structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{c.Key()}})
	})
}

// BenchmarkClaimStorm is R readers who claim one volume one after the other, an entry and a transaction each.
func BenchmarkClaimStorm(b *testing.B) { benchStorm(b, 1) }

// BenchmarkClaimStormBatched is the same in batches of 64 entries.
func BenchmarkClaimStormBatched(b *testing.B) { benchStorm(b, 64) }

func benchStorm(b *testing.B, batch int) {
	for _, r := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("R=%d", r), func(b *testing.B) {
			m := begin(b)
			for range b.N {
				m.pause()
				s := benchFill{nodes: 1000, shared: 0, allocs: r}.store(b)
				m.resume()
				for i := 0; i < r; {
					t := s.s.Batch()
					for end := min(r, i+batch); i < end; i++ {
						s.index++
						_ = t.Apply(s.index, func(tx *Write) error {
							return VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{benchshape.Claim(benchshape.SharedVolume, i, structs.ClaimRead)}})
						})
					}
					t.Commit()
				}
			}
			m.end(r)
		})
	}
}

// BenchmarkPluginGet is a plugin put together with its instances and allocations.
func BenchmarkPluginGet(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFill{nodes: n, shared: -1, pluginAllocs: true}.store(b)
			m := begin(b)
			for range b.N {
				if d := PluginDetail(s.s.Read(), benchshape.Plugin); len(d.Allocations) != n || len(d.Nodes) != n {
					b.Fatal(len(d.Allocations))
				}
			}
			m.end(1)
		})
	}
}

// BenchmarkPluginPage is the first 100 of a plugin's instances.
func BenchmarkPluginPage(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFill{nodes: n, shared: -1, pluginAllocs: true}.store(b)
			m := begin(b)
			for range b.N {
				if d, next := PluginPage(s.s.Read(), benchshape.Plugin, nil, 100); len(d.Allocations) != 100 || next == nil {
					b.Fatal(len(d.Allocations))
				}
			}
			m.end(1)
		})
	}
}

// BenchmarkVolumeList makes the stubs of 10,000 volumes.
func BenchmarkVolumeList(b *testing.B) {
	for _, each := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("claims=%d", each), func(b *testing.B) {
			const n = 10000
			s := benchFill{nodes: 1000, volumes: n, claimsEach: each, shared: -1, allocs: n}.store(b)
			m := begin(b)
			for range b.N {
				tx, out := s.s.Read(), []*structs.CSIVolumeListStub{}
				stub := Stubs(tx)
				for v := range Volumes(tx, structs.DefaultNamespace, "") {
					out = append(out, stub(v))
				}
				if len(out) != n || out[0].CurrentReaders != each {
					b.Fatal(len(out))
				}
			}
			m.end(1)
		})
	}
}

// BenchmarkAllocUpdate is an allocation of a plugin's job whose node reports a change.
func BenchmarkAllocUpdate(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFill{nodes: n, shared: -1, pluginAllocs: true}.store(b)
			m := begin(b)
			for i := range b.N {
				u := &structs.AllocClientUpdate{ID: benchshape.UUID("plugalloc", i%n), ClientStatus: structs.AllocRunning, ClientDescription: fmt.Sprint(i)}
				s.do(func(tx *Write) error {
					return AllocsClientUpdate(tx, &structs.AllocsClientUpdateRequest{Allocs: []*structs.AllocClientUpdate{u}})
				})
			}
			m.end(1)
		})
	}
}

// BenchmarkAllocEnds is an allocation of a large job that ends: its job is evaluated and room is made.
func BenchmarkAllocEnds(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFill{nodes: 1000, shared: -1, allocs: max(n, b.N)}.store(b)
			m := begin(b)
			for i := range b.N {
				u := &structs.AllocClientUpdate{ID: benchshape.UUID("alloc", i), ClientStatus: structs.AllocFailed}
				s.do(func(tx *Write) error {
					return AllocsClientUpdate(tx, &structs.AllocsClientUpdateRequest{Allocs: []*structs.AllocClientUpdate{u}})
				})
			}
			m.end(1)
		})
	}
}

// BenchmarkNodeStatus takes a node down and up again, an entry each.
func BenchmarkNodeStatus(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFill{nodes: n, shared: -1}.store(b)
			m := begin(b)
			for i := range b.N {
				status := []string{structs.NodeDown, structs.NodeReady}[i&1]
				s.do(func(tx *Write) error {
					return NodeStatus(tx, &structs.NodeStatusUpdate{NodeIDs: []string{benchshape.UUID("node", i/2%n)}, Status: status})
				})
			}
			m.end(1)
		})
	}
}

// BenchmarkSnapshot writes and restores 10,000 nodes, 10,000 volumes and 100,000 claims.
func BenchmarkSnapshot(b *testing.B) {
	s := benchFill{nodes: 10000, volumes: 10000, claimsEach: 10, shared: -1, allocs: 100000}.store(b)
	rows := countRows(s.s)
	b.Run("write", func(b *testing.B) {
		m := begin(b)
		for range b.N {
			if err := s.s.Save(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		m.end(rows)
	})
	b.Run("restore", func(b *testing.B) {
		var buf memory
		if err := s.s.Save(&buf); err != nil {
			b.Fatal(err)
		}
		m := begin(b)
		for range b.N {
			r := buf
			if err := New().Load(&r); err != nil {
				b.Fatal(err)
			}
		}
		m.end(rows)
		b.ReportMetric(float64(len(buf.b)), "bytes")
	})
}

// memory is a file that is kept in memory and read from its beginning by each copy.
type memory struct{ b []byte }

func (m *memory) Write(p []byte) (int, error) { m.b = append(m.b, p...); return len(p), nil }

func (m *memory) Read(p []byte) (int, error) {
	if len(m.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.b)
	m.b = m.b[n:]
	return n, nil
}

// countRows counts the rows of every table.
func countRows(s *Store) (n int) {
	tx := s.Read()
	for _, t := range schema().tables {
		it := tx.under(key{t.firstByte()})
		for it.Next() != nil {
			n++
		}
	}
	return n
}
