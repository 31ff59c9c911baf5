// snapheap measures FSM snapshot persist/restore time and bytes, and the heap
// held, at several fixed states.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"time"

	"berth/bench/peer/shape"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

type memSink struct{ bytes.Buffer }

func (*memSink) Close() error  { return nil }
func (*memSink) Cancel() error { return nil }
func (*memSink) ID() string    { return "mem" }

type nullSink struct {
	n, writes int64
}

func (s *nullSink) Write(p []byte) (int, error) { s.n += int64(len(p)); s.writes++; return len(p), nil }
func (*nullSink) Close() error                  { return nil }
func (*nullSink) Cancel() error                 { return nil }
func (*nullSink) ID() string                    { return "null" }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func heap() (uint64, uint64) {
	runtime.GC()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.HeapObjects
}

func med(d []time.Duration) time.Duration {
	sort.Slice(d, func(i, j int) bool {
		return d[i] < d[j]
	})
	return d[len(d)/2]
}

func main() {
	reps := flag.Int("reps", 5, "")
	dir := flag.String("dir", "snapdir", "")
	asJSON := flag.Bool("json", false, "print only the input of cmd/compare")
	flag.Parse()
	cases := []struct {
		name string
		f    shape.Fill
	}{
		{"empty", shape.Fill{SharedVolClaims: -1}},
		{"10k nodes", shape.Fill{Nodes: 10000, SharedVolClaims: -1}},
		{"10k nodes+10k vols", shape.Fill{
			Nodes:           10000,
			Volumes:         10000,
			SharedVolClaims: -1,
		}},
		{"10k nodes+10k vols+100k claims", shape.Fill{
			Nodes:           10000,
			Volumes:         10000,
			ClaimsPerVol:    10,
			SharedVolClaims: -1,
		}},
		{"10k nodes+10k vols+100k claims+100k allocs", shape.Fill{
			Nodes:           10000,
			Volumes:         10000,
			ClaimsPerVol:    10,
			SharedVolClaims: -1,
			Allocs:          100000,
		}},
	}
	if *asJSON {
		report(cases[1].f, cases[2].f, cases[3].f)
		return
	}
	fmt.Printf("peer %s %s\n", shape.PeerVersion, runtime.Version())
	fmt.Printf("%-45s %12s %10s %12s %12s %12s %12s %12s %12s\n", "state", "bytes", "writes", "persist-null",
		"persist-file", "restore-mem", "heapMB", "objects", "")
	for _, c := range cases {
		fsm := shape.NewFSM(true)
		c.f.Do(fsm.State())
		var tn, tf, tr []time.Duration
		var bytesN, writes int64
		var data []byte
		for i := 0; i < *reps; i++ {
			snap, err := fsm.Snapshot()
			check(err)
			ns := &nullSink{}
			t := time.Now()
			check(snap.Persist(ns))
			tn = append(tn, time.Since(t))
			snap.Release()
			bytesN, writes = ns.n, ns.writes
		}
		for i := 0; i < *reps; i++ {
			os.RemoveAll(*dir)
			check(os.MkdirAll(*dir, 0o755))
			st, err := raft.NewFileSnapshotStoreWithLogger(*dir, 1, hclog.NewNullLogger())
			check(err)
			snap, err := fsm.Snapshot()
			check(err)
			t := time.Now()
			sink, err := st.Create(1, 100, 1, raft.Configuration{}, 1, nil)
			check(err)
			check(snap.Persist(sink))
			check(sink.Close())
			tf = append(tf, time.Since(t))
			snap.Release()
		}
		{
			snap, err := fsm.Snapshot()
			check(err)
			m := &memSink{}
			check(snap.Persist(m))
			snap.Release()
			data = m.Bytes()
		}
		fsm = nil
		var h0, h1, o0, o1 uint64
		for i := 0; i < *reps; i++ {
			f2 := shape.NewFSM(true)
			h0, o0 = heap()
			t := time.Now()
			check(f2.Restore(io.NopCloser(bytes.NewReader(data))))
			tr = append(tr, time.Since(t))
			h1, o1 = heap()
			runtime.KeepAlive(f2)
		}
		fmt.Printf("%-45s %12d %10d %12s %12s %12s %12.2f %12d\n", c.name, bytesN, writes,
			med(tn).Round(10*time.Microsecond), med(tf).Round(10*time.Microsecond), med(tr).Round(10*time.Microsecond),
			(float64(h1)-float64(h0))/1e6, o1-o0)
	}
	os.RemoveAll(*dir)
}

// report measures the heap that each kind of row adds, and the snapshot of all.
func report(nodes, volumes, claims shape.Fill) {
	heapOf := func(f shape.Fill) (held float64, bytesN int, write, restore time.Duration) {
		fsm := shape.NewFSM(true)
		f.Do(fsm.State())
		snap, err := fsm.Snapshot()
		check(err)
		m := &memSink{}
		t := time.Now()
		check(snap.Persist(m))
		write = time.Since(t)
		snap.Release()
		fsm = nil
		fresh := shape.NewFSM(true)
		before, _ := heap()
		t = time.Now()
		check(fresh.Restore(io.NopCloser(bytes.NewReader(m.Bytes()))))
		restore = time.Since(t)
		after, _ := heap()
		runtime.KeepAlive(fresh)
		return float64(after) - float64(before), m.Len(), write, restore
	}
	n, _, _, _ := heapOf(nodes)
	v, _, _, _ := heapOf(volumes)
	c, size, write, restore := heapOf(claims)
	claims.Allocs = 100000
	_, allSize, allWrite, allRestore := heapOf(claims)
	snapshot := func(size int, write, restore time.Duration) map[string]any {
		return map[string]any{
			"Bytes":     size,
			"WriteNs":   write,
			"RestoreNs": restore,
		}
	}
	all := snapshot(size, write, restore)
	all["WithAllocs"] = snapshot(allSize, allWrite, allRestore)
	all["PerNode"], all["PerVolume"] = n/float64(nodes.Nodes), (v-n)/float64(volumes.Volumes)
	all["PerClaim"] = (c - v) / float64(claims.Volumes*claims.ClaimsPerVol)
	check(json.NewEncoder(os.Stdout).Encode(all))
}
