package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"

	"berth/bench/peer/result"
)

// heapRow is a row of snapshots or heap. The peer's number is in the report of cmd/snapheap, berth's is a
// metric of a part of a benchmark.
type heapRow struct {
	result.Row
	peer                func(heapReport) float64
	bench, part, metric string
}

var heapRows = []heapRow{
	{
		inMegabytes("snapshot of 10,000 nodes, 10,000 volumes, 100,000 claims"),
		func(r heapReport) float64 { return r.Bytes },
		"Snapshot", "restore", "bytes",
	},
	{
		inSeconds("written"),
		func(r heapReport) float64 { return r.WriteNs },
		"Snapshot", "write", "ns/op",
	},
	{
		inSeconds("restored"),
		func(r heapReport) float64 { return r.RestoreNs },
		"Snapshot", "restore", "ns/op",
	},
	{
		inMegabytes("snapshot, where the peer, too, holds the 100,000 allocations that claim"),
		func(r heapReport) float64 { return r.WithAllocs.Bytes },
		"Snapshot", "restore", "bytes",
	},
	{
		inSeconds("such a one written"),
		func(r heapReport) float64 { return r.WithAllocs.WriteNs },
		"Snapshot", "write", "ns/op",
	},
	{
		inSeconds("such a one restored"),
		func(r heapReport) float64 { return r.WithAllocs.RestoreNs },
		"Snapshot", "restore", "ns/op",
	},
	{
		result.Row{
			Name:   "heap per node with its instance",
			Unit:   "KB",
			Scale:  1e-3,
			Target: 2,
		},
		func(r heapReport) float64 { return r.PerNode },
		"Heap", "node", "bytes/unit",
	},
	{
		result.Row{
			Name:   "heap per volume",
			Unit:   "KB",
			Scale:  1e-3,
			Target: 2,
		},
		func(r heapReport) float64 { return r.PerVolume },
		"Heap", "volume", "bytes/unit",
	},
	{
		result.Row{
			Name:  "heap per claim",
			Unit:  "KB",
			Scale: 1e-3,
			Bound: 1.5,
		},
		func(r heapReport) float64 { return r.PerClaim },
		"Heap", "claim", "bytes/unit",
	},
}

func inMegabytes(name string) result.Row {
	return result.Row{
		Name:  name,
		Unit:  "MB",
		Scale: 1e-6,
	}
}

func inSeconds(name string) result.Row {
	return result.Row{
		Name:  name,
		Unit:  "s",
		Scale: 1e-9,
	}
}

// memoryRows are snapshots, restores and heap.
func memoryRows() (rows []row) {
	for _, h := range heapRows {
		rows = append(rows, row{
			Row: h.Row,
			Peer: func(b *bench) (float64, error) {
				r, err := peerHeap(b)
				return h.peer(r), err
			},
			Berth: inMetric(h.metric, one(berthState, h.bench, h.part)),
		})
	}
	return append(rows,
		rowsPerSecond("rows written per second", "write", 500),
		rowsPerSecond("rows restored per second", "restore", 150))
}

// rowsPerSecond is a row of berth alone with a minimum.
func rowsPerSecond(name, part string, least float64) row {
	perRow := inMetric("ns/unit", one(berthState, "Snapshot", part))
	return row{
		Row: result.Row{
			Name:    name,
			Unit:    "k/s",
			Scale:   1e-3,
			Inverse: true,
			Bound:   least,
		},
		Berth: func(b *bench) (float64, error) {
			ns, err := perRow(b)
			if err != nil {
				return 0, err
			}
			return 1e9 / ns, nil
		},
	}
}

// inMetric measures in another metric than the selected one.
func inMetric(metric string, measure measurement) measurement {
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
