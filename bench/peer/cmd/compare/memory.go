package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
)

// memoryRows are snapshots, restoring and heap.
func memoryRows() []row {
	snap := func(name, unit string, scale, target float64, inverse bool, peer func(heapReport) float64, test, metric string) row {
		return row{Name: name, Unit: unit, Scale: scale, Target: target, Inverse: inverse,
			Peer: func(b *bench) (float64, error) {
				r, err := peerHeap(b)
				return peer(r), err
			},
			Berth: func(b *bench) (float64, error) {
				was := b.metric
				b.metric = metric
				defer func() { b.metric = was }()
				return benchmark(berthState, test, 1)(b)
			}}
	}
	return []row{
		snap("snapshot of 10,000 nodes, 10,000 volumes, 100,000 claims", "MB", 1e-6, 0, false, func(r heapReport) float64 { return r.Bytes }, "Snapshot/restore", "bytes"),
		snap("written", "s", 1e-9, 0, false, func(r heapReport) float64 { return r.WriteNs }, "Snapshot/write", "ns/op"),
		snap("restored", "s", 1e-9, 0, false, func(r heapReport) float64 { return r.RestoreNs }, "Snapshot/restore", "ns/op"),
		snap("heap per node with its instance", "KB", 1e-3, 2, false, func(r heapReport) float64 { return r.PerNode }, "Heap/node", "bytes/unit"),
		snap("heap per volume", "KB", 1e-3, 2, false, func(r heapReport) float64 { return r.PerVolume }, "Heap/volume", "bytes/unit"),
		snap("heap per claim", "KB", 1e-3, 0, false, func(r heapReport) float64 { return r.PerClaim }, "Heap/claim", "bytes/unit"),
		{Name: "rows written per second", Unit: "k/s", Scale: 1e-3, Inverse: true, Berth: perSecond("Snapshot/write")},
		{Name: "rows restored per second", Unit: "k/s", Scale: 1e-3, Inverse: true, Berth: perSecond("Snapshot/restore")},
	}
}

func perSecond(name string) func(*bench) (float64, error) {
	return func(b *bench) (float64, error) {
		was := b.metric
		b.metric = "ns/unit"
		defer func() { b.metric = was }()
		n, err := benchmark(berthState, name, 1)(b)
		if n > 0 {
			n = 1e9 / n
		}
		return n, err
	}
}

// heapReport is what cmd/snapheap of this module prints with -json.
type heapReport struct {
	Bytes, WriteNs, RestoreNs    float64
	PerNode, PerVolume, PerClaim float64
}

var heaps = map[int]heapReport{} // by round: one run serves every row

func peerHeap(b *bench) (heapReport, error) {
	if r, ok := heaps[b.round]; ok {
		return r, nil
	}
	var r heapReport
	cmd := exec.Command(filepath.Join(b.bin, "peer-snapheap"), "-json", "-reps", "1")
	cmd.Dir = b.bin
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
