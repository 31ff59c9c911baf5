package main

import (
	"fmt"

	"berth/bench/peer/result"
)

const (
	peerSched  = "peer-sched.test"
	berthSched = "berth-sched.test"
)

// schedRows are the placements of the schedulers with their stores, in process: the time for each placement,
// and the number of nodes in use after all.
func schedRows() (rows []row) {
	for _, work := range []struct {
		name, bench string
		target      float64
	}{
		{"one service of 10,000", "service", 10},
		{"1,000 services of 10", "services", 10},
		{"a system job on every node", "system", 3},
		{"a batch of 5,000", "batch", 3},
	} {
		for _, n := range []int{1000, 5000, 10_000} {
			bench := fmt.Sprintf("Sched/%s/N=%d", work.bench, n)
			rows = append(rows, row{
				Row: result.Row{
					Name:   fmt.Sprintf("%s, N=%d, per placement", work.name, n),
					Unit:   "us",
					Scale:  1e-3,
					Target: work.target,
				},
				Peer:  benchmark(peerSched, bench, "1x"),
				Berth: benchmark(berthSched, bench, "1x"),
			})
			if work.bench == "system" {
				continue
			}
			rows = append(rows, row{
				Row: result.Row{
					Name:   fmt.Sprintf("%s, N=%d, nodes in use", work.name, n),
					Unit:   "nodes",
					Scale:  1,
					Target: 1,
				},
				Peer:  inMetric("nodes", benchmark(peerSched, bench, "1x")),
				Berth: inMetric("nodes", benchmark(berthSched, bench, "1x")),
			})
		}
	}
	return rows
}
