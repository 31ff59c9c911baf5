package main

import (
	"fmt"
	"slices"

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
	return slices.Concat(rows, changeRows(), sizeRows(), boundRows())
}

// changeRows are the changes of stores that have allocations already, and the jobs with volumes.
func changeRows() (rows []row) {
	for _, work := range []struct{ name, bench string }{
		{"update of 10,000 allocations at once, N=5,000, for each", "SchedUpdate"},
		{"drain of 100 nodes with 5,000 allocations, N=1,000, for each", "SchedDrain"},
		{"1,000 jobs with a volume each, reachable from 5 nodes, N=1,000, per placement", "SchedVolumes"},
	} {
		rows = append(rows, row{
			Row: result.Row{
				Name:   work.name,
				Unit:   "us",
				Scale:  1e-3,
				Target: 1,
			},
			Peer:  benchmark(peerSched, work.bench, "1x"),
			Berth: benchmark(berthSched, work.bench, "1x"),
		})
	}
	return rows
}

// sizeRows are berth alone: the cost of a placement on a hundred times the nodes.
func sizeRows() (rows []row) {
	for _, work := range []struct{ name, bench string }{
		{"one service of 10,000", "service"},
		{"1,000 services of 10", "services"},
		{"a system job on every node", "system"},
		{"a batch of 5,000", "batch"},
	} {
		large := benchmark(berthSched, "SchedSizes/"+work.bench+"/N=100000", "1x")
		small := benchmark(berthSched, "SchedSizes/"+work.bench+"/N=1000", "1x")
		rows = append(rows, row{
			Row: result.Row{
				Name:  work.name + ", N=100,000, per placement",
				Unit:  "us",
				Scale: 1e-3,
			},
			Berth: large,
		}, growthRow(work.name, 1.5, large, small))
	}
	return rows
}

// growthRow is the cost of a work on 100,000 nodes in relation to its cost on 1,000, at most bound if that is
// not 0.
func growthRow(name string, bound float64, large, small measurement) row {
	return row{
		Row: result.Row{
			Name:  name + ", N=100,000, times its cost at N=1,000",
			Unit:  "x",
			Scale: 1,
			Bound: bound,
		},
		Berth: func(b *bench) (float64, error) {
			of, err := large(b)
			if err != nil {
				return 0, err
			}
			to, err := small(b)
			return of / to, err
		},
	}
}

// boundRows are berth alone, as lower bounds: the entries that apply the plans, without the scheduler, and
// the keys of the allocations in trees of go-memdb, without anything else. The last two are the
// growth of both.
func boundRows() (rows []row) {
	add := func(name, program, bench string) {
		rows = append(rows, row{
			Row: result.Row{
				Name:  "lower bound: " + name,
				Unit:  "us",
				Scale: 1e-3,
			},
			Berth: benchmark(program, bench, "1x"),
		})
	}
	add("one service of 10,000, N=10000, the entries alone", berthSched, "PlanApply/service/N=10000")
	add("1,000 services of 10, N=1000, the entries alone", berthSched, "PlanApply/services/N=1000")
	add("a system job, N=10000, the entries alone", berthSched, "PlanApply/system/N=10000")
	add("a batch of 5,000, N=5000, the entries alone", berthSched, "PlanApply/batch/N=5000")
	add("two keys of each allocation of plans, in bare trees", berthMVCC, "TreeOfPlan/sorted=true")
	add("three keys of each allocation of a system job, in bare trees", berthMVCC, "TreeOfPlan/system")
	grows := func(name, program, bench string) {
		large := benchmark(program, bench+"/N=100000", "1x")
		small := benchmark(program, bench+"/N=1000", "1x")
		rows = append(rows, growthRow("lower bound: "+name, 0, large, small))
	}
	grows("a system job, the entries alone", berthSched, "PlanApplySizes/system")
	grows("three keys of each allocation of a system job, in bare trees", berthMVCC, "TreeOfPlanSizes/system")
	return rows
}
