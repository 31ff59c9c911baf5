package state_test

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"berth/bench/shape"
	"berth/internal/snaparchive"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

var archive = flag.String("archive", "",
	"where BenchmarkCapacity leaves what it has filled, as servers restore it, and BenchmarkFirstRestore reads it")

// restored returns the store as a server has it after a restart, the size of its heap and the time of the
// load.
func (b *benchStore) restored() (s *state.Store, held float64, took time.Duration) {
	var buf memory
	if err := b.s.Save(&buf); err != nil {
		b.tb.Fatal(err)
	}
	b.s = nil
	before := heapNow()
	s = state.New()
	r, start := buf, time.Now()
	if err := loadAsServer(s, &r); err != nil {
		b.tb.Fatal(err)
	}
	took = time.Since(start)
	held = heapNow() - before
	runtime.KeepAlive(buf.b) // in both sums or in none
	return s, held, took
}

func heapNow() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkHeap measures the memory of a row of each kind after a restore, with its keys in every index.
func BenchmarkHeap(b *testing.B) {
	const n = 10000
	held := func(f benchFill) float64 {
		s, held, _ := f.store(b).restored()
		runtime.KeepAlive(s)
		return held
	}
	empty := func() float64 { return held(benchFill{nodes: n, shared: -1}) }
	for range b.N {
		nodes := empty()
		b.Run("node", func(b *testing.B) { b.ReportMetric(nodes/n, "bytes/unit") })
		b.Run("volume", func(b *testing.B) {
			b.ReportMetric((held(benchFill{
				nodes:   n,
				volumes: n,
				shared:  -1,
			})-nodes)/n, "bytes/unit")
		})
		b.Run("claim", func(b *testing.B) {
			without := held(benchFill{
				nodes:   n,
				volumes: n,
				shared:  -1,
				allocs:  n,
			})
			b.ReportMetric((held(benchFill{
				nodes:      n,
				volumes:    n,
				shared:     -1,
				allocs:     n,
				claimsEach: 10,
			})-without)/(10*n), "bytes/unit")
		})
	}
}

// BenchmarkCapacity fills one store with 100,000 nodes and their instances, 100,000 volumes and 1,000,000
// claims of 100,000 allocations, and measures it. Run it with -bench=Capacity -benchtime=1x.
func BenchmarkCapacity(b *testing.B) {
	if b.N > 1 || testing.Short() {
		b.Skip("large: once is enough")
	}
	const n, each = 100000, 10
	start := time.Now()
	s := benchFill{
		nodes:   n,
		volumes: n,
		shared:  -1,
		allocs:  n,
	}.store(b)
	s.many(n*each, func(tx *state.WriteTx, i int) error {
		return csi.VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{
			shape.Claim(shape.VolumeID(i/each), (i*7+i/each)%n, structs.ClaimRead)}})
	})
	b.ReportMetric(time.Since(start).Seconds(), "filled-s")
	rows := countRows(s.s)
	b.ReportMetric(float64(rows), "rows")
	var size counter
	start = time.Now()
	if err := s.s.Save(&size); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(start).Seconds(), "written-s")
	b.ReportMetric(float64(size), "bytes")
	if err := archived(s.s, *archive, int64(size)); err != nil {
		b.Fatal(err)
	}
	fresh, held, took := s.restored()
	b.ReportMetric(took.Seconds(), "restored-s")
	b.ReportMetric(held, "heap-bytes")
	for range csi.ClaimsByVolume(fresh.Read(), structs.DefaultNamespace, shape.VolumeID(n-1)) {
		size++
	}
	runtime.KeepAlive(fresh)
}

// BenchmarkFirstRestore loads the archive of BenchmarkCapacity in a process that has loaded nothing
// before, as a server does at its start. BenchmarkCapacity loads it where a store has been: the memory is
// there already. Most of the difference is the time in which the machine provides pages.
func BenchmarkFirstRestore(b *testing.B) {
	if b.N > 1 || *archive == "" {
		b.Skip("once is enough, and needs -archive")
	}
	from, err := os.Open(*archive)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	file, err := os.Create(filepath.Join(b.TempDir(), "state"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	_, err = snaparchive.Read(from, file)
	if err != nil {
		b.Fatal(err)
	}
	_, err = file.Seek(0, io.SeekStart)
	if err != nil {
		b.Fatal(err)
	}

	s := state.New()
	start := time.Now()
	err = loadAsServer(s, file)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(start).Seconds(), "restored-s")
	runtime.KeepAlive(s)
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// archived writes a store, which has size bytes, into a file. It does nothing without a path.
func archived(s *state.Store, path string, size int64) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(s.Save(w)) }()
	err = snaparchive.Write(f, snaparchive.Meta{
		Index:   s.Index(),
		Term:    1,
		Berth:   "bench",
		Created: time.Now(),
	}, size, r)
	return errors.Join(err, r.Close(), f.Close())
}
