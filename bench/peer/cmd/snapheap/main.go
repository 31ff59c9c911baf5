// Snapheap prints as JSON the time and the size of a snapshot of the peer's state, the time of its restore,
// and the heap of each kind of row after a restore. cmd/compare reads it.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"time"

	"berth/bench/peer/shape"
)

// sink is a snapshot in memory.
type sink struct{ bytes.Buffer }

func (*sink) Close() error  { return nil }
func (*sink) Cancel() error { return nil }
func (*sink) ID() string    { return "memory" }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func heapNow() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// result is the measurement of one state.
type result struct {
	Bytes     int
	WriteNs   time.Duration
	RestoreNs time.Duration

	heap float64 // bytes of the restored state
}

// write writes the state of a fill as a snapshot.
func write(fill shape.Fill) (file *sink, took time.Duration) {
	fsm := shape.NewFSM(true)
	fill.Do(fsm.State())
	snapshot, err := fsm.Snapshot()
	check(err)
	defer snapshot.Release()
	file = &sink{}
	start := time.Now()
	check(snapshot.Persist(file))
	return file, time.Since(start)
}

// measure writes the state of a fill and restores it into a new store.
func measure(fill shape.Fill) result {
	file, took := write(fill)
	fresh := shape.NewFSM(true)
	before := heapNow()
	start := time.Now()
	check(fresh.Restore(io.NopCloser(bytes.NewReader(file.Bytes()))))
	restored := time.Since(start)
	held := heapNow() - before
	runtime.KeepAlive(fresh)
	return result{
		Bytes:     file.Len(),
		WriteNs:   took,
		RestoreNs: restored,
		heap:      held,
	}
}

func main() {
	const rows = 10000
	const claimsEach = 10
	fill := shape.Fill{Nodes: rows, SharedVolClaims: -1}
	nodes := measure(fill)
	fill.Volumes = rows
	volumes := measure(fill)
	fill.ClaimsPerVol = claimsEach
	claims := measure(fill)
	fill.Allocs = rows * claimsEach
	allocs := measure(fill)
	check(json.NewEncoder(os.Stdout).Encode(struct {
		result
		WithAllocs                   result
		PerNode, PerVolume, PerClaim float64
	}{
		result:     claims,
		WithAllocs: allocs,
		PerNode:    nodes.heap / rows,
		PerVolume:  (volumes.heap - nodes.heap) / rows,
		PerClaim:   (claims.heap - volumes.heap) / (rows * claimsEach),
	}))
}
