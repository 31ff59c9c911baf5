package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"

	"berth/bench/peer/result"
)

// memoryRows are snapshots, restoring and heap.
func memoryRows() []row {
	snap := func(r result.Row, peer func(heapReport) float64, test, of, metric string) row {
		return row{
			Row: r,
			Peer: func(b *bench) (float64, error) {
				r, err := peerHeap(b)
				return peer(r), err
			},
			Berth: inMetric(metric, one(berthState, test, of)),
		}
	}
	perSecond := func(name, of string, least float64) row {
		n := inMetric("ns/unit", one(berthState, "Snapshot", of))
		return row{
			Row: result.Row{
				Name:    name,
				Unit:    "k/s",
				Scale:   1e-3,
				Inverse: true,
				Bound:   least,
			},
			Berth: func(b *bench) (float64, error) {
				ns, err := n(b)
				if err != nil {
					return 0, err
				}
				return 1e9 / ns, nil
			},
		}
	}
	return []row{
		snap(result.Row{Name: "snapshot of 10,000 nodes, 10,000 volumes, 100,000 claims", Unit: "MB", Scale: 1e-6},
			func(r heapReport) float64 { return r.Bytes }, "Snapshot", "restore", "bytes"),
		snap(result.Row{Name: "written", Unit: "s", Scale: 1e-9}, func(r heapReport) float64 { return r.WriteNs },
			"Snapshot", "write", "ns/op"),
		snap(result.Row{Name: "restored", Unit: "s", Scale: 1e-9},
			func(r heapReport) float64 { return r.RestoreNs }, "Snapshot", "restore", "ns/op"),
		snap(result.Row{Name: "snapshot, where the peer, too, holds the 100,000 allocations that claim", Unit: "MB",
			Scale: 1e-6},
			func(r heapReport) float64 { return r.WithAllocs.Bytes }, "Snapshot", "restore", "bytes"),
		snap(result.Row{Name: "such a one written", Unit: "s", Scale: 1e-9},
			func(r heapReport) float64 { return r.WithAllocs.WriteNs }, "Snapshot", "write", "ns/op"),
		snap(result.Row{Name: "such a one restored", Unit: "s", Scale: 1e-9},
			func(r heapReport) float64 { return r.WithAllocs.RestoreNs }, "Snapshot", "restore", "ns/op"),
		snap(result.Row{Name: "heap per node with its instance", Unit: "KB", Scale: 1e-3, Target: 2},
			func(r heapReport) float64 { return r.PerNode }, "Heap", "node", "bytes/unit"),
		snap(result.Row{Name: "heap per volume", Unit: "KB", Scale: 1e-3, Target: 2},
			func(r heapReport) float64 { return r.PerVolume }, "Heap", "volume", "bytes/unit"),
		snap(result.Row{Name: "heap per claim", Unit: "KB", Scale: 1e-3, Bound: 1.5},
			func(r heapReport) float64 { return r.PerClaim }, "Heap", "claim", "bytes/unit"),
		perSecond("rows written per second", "write", 500),
		perSecond("rows restored per second", "restore", 150),
	}
}

// inMetric measures in another metric than the selected one.
func inMetric(metric string, measure func(*bench) (float64, error)) func(*bench) (float64, error) {
	return func(b *bench) (float64, error) {
		was := b.metric
		b.metric = metric
		defer func() { b.metric = was }()
		return measure(b)
	}
}

// heapReport is the output of cmd/snapheap of this module.
type heapReport struct {
	snapshot
	WithAllocs                   snapshot
	PerNode, PerVolume, PerClaim float64
}

type snapshot struct{ Bytes, WriteNs, RestoreNs float64 }

var heaps = map[int]heapReport{} // by round: one run serves every row

func peerHeap(b *bench) (heapReport, error) {
	if r, ok := heaps[b.round]; ok {
		return r, nil
	}
	var r heapReport
	cmd := exec.Command(filepath.Join(b.bin, "peer-snapheap"))
	cmd.Dir = b.bin
	cmd.SysProcAttr = withMe()
	out, err := cmd.Output()
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(out)).Decode(&r)
	}
	if err != nil {
		return r, fmt.Errorf("%w: %s", err, out)
	}
	heaps[b.round] = r
	return r, nil
}
