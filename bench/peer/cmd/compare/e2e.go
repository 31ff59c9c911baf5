package main

import (
	"fmt"
	"os"
	"slices"

	"berth/bench/peer/result"
)

// scenario is a measurement of a product that has the numbers of several rows.
type scenario struct {
	rows    []result.Row
	own     []result.Row // of berth alone
	measure func(*bench, *product) (numbers, error)
	alone   bool // of no product: its numbers are in the column of berth
}

// numbers are seconds by the name of a row. The number of a row is their median.
type numbers map[string][]float64

func (n numbers) add(name string, seconds float64) { n[name] = append(n[name], seconds) }

// The names of the rows of one agent.
const (
	firstWrite = "job registered, to its first write on a volume"
	allWritten = "50 jobs with a volume each: all have written"
	startCPU   = "50 jobs with a volume each: CPU a start"
	oneFree    = "stop of a job, to no claim left"
	allFree    = "stop of 50 jobs, to no claim left"
	stopCPU    = "stop of 50 jobs: CPU a stop"
	handOver   = "stop of a job, to the first write of the next one on its volume"
)

// The names of rows that show what a start takes whatever the agent does.
const (
	driverCalls = "first write: of it, the calls of the CSI driver to stage and publish"
	boundWrite  = "first write: lower bound: these calls, waits for the disk, two bare processes"
	driverCPU   = "50 jobs: CPU a start: of it, the CSI driver"
	programCPU  = "50 jobs: CPU a start: of it, the program of the job"
	boundCPU    = "50 jobs: CPU a start: lower bound: both, and a bare process"
)

// e2eScenarios are one agent of each product with the same CSI plugin, one server of each with nodes that
// only register, and the lower bounds.
func e2eScenarios() []scenario {
	return []scenario{
		{
			rows: []result.Row{
				bounded(firstWrite, 30, 156),
				bounded(allWritten, 800, 4400),
				bounded(startCPU, 20, 180),
				inMilliseconds(oneFree, 2),
				inMilliseconds(allFree, 2),
				inMilliseconds(stopCPU, 0),
				bounded(handOver, 60, 325),
			},
			own: []result.Row{
				inMilliseconds(driverCalls, 0),
				inMilliseconds(boundWrite, 0),
				inMilliseconds(driverCPU, 0),
				inMilliseconds(programCPU, 0),
				inMilliseconds(boundCPU, 0),
			},
			measure: measureAgent,
		},
		serverScenario(1000),
		serverScenario(33),
		floorScenario(),
		serverFloorScenario(),
	}
}

func inMilliseconds(name string, target float64) result.Row {
	return result.Row{
		Name:   name,
		Unit:   "ms",
		Scale:  1e3,
		Target: target,
	}
}

// bounded returns a row with a bound in milliseconds, which was set on a machine on which the peer took
// peerThen.
func bounded(name string, bound, peerThen float64) result.Row {
	r := inMilliseconds(name, 0)
	r.Bound = bound
	r.PeerThen = peerThen
	return r
}

// e2eRows also returns the removal of the files, which follows the last round: to make a file in an ext4
// without a journal takes more CPU time, the more files were removed in the minutes before.
func (b *bench) e2eRows() (rows []row, stop func()) {
	var err error
	b.scratch, err = os.MkdirTemp("", "e2e-")
	check(err)
	for i, s := range e2eScenarios() {
		for j, r := range slices.Concat(s.rows, s.own) {
			of := func(p *product) measurement {
				return func(b *bench) (float64, error) { return b.numberOf(i, s, p, r.Name) }
			}
			measured := row{Row: r, Berth: of(&berthProduct)}
			if !s.alone && j < len(s.rows) {
				measured.Peer = of(&peerProduct)
			}
			rows = append(rows, measured)
		}
	}
	return rows, func() { check(os.RemoveAll(b.scratch)) }
}

// numberOf runs scenario i on a product, once in each round.
func (b *bench) numberOf(i int, s scenario, p *product, name string) (float64, error) {
	key := fmt.Sprint(i, p.name, b.round)
	n, done := b.numbers[key]
	if !done {
		var err error
		n, err = s.measure(b, p)
		b.numbers[key] = n // also an incomplete one: a failure is not repeated for each row
		if err != nil {
			return 0, err
		}
	}
	if len(n[name]) == 0 {
		return 0, fmt.Errorf("the %s was not measured", p.name)
	}
	return result.Median(n[name]), nil
}
