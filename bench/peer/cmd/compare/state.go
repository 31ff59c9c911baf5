package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"berth/bench/peer/result"
)

const (
	peerState  = "peer-state.test"
	berthState = "berth-state.test"
	berthRPC   = "berth-endpoints.test"
	berthMVCC  = "berth-mvcc.test"
)

// rows returns the rows of a kind. stop ends everything that they have started.
func (b *bench) rows(kind string) (rows []row, stop func()) {
	switch kind {
	case "state":
		return stateRows(), func() {}
	case "growth":
		return growthRows(), func() {}
	case "memory":
		return memoryRows(), func() {}
	case "capacity":
		return b.capacityRows()
	case "rpc":
		return b.rpcRows()
	case "list":
		return b.listRows()
	case "sched":
		return schedRows(), func() {}
	case "e2e":
		return b.e2eRows()
	}
	check(fmt.Errorf("%q is neither state, growth, memory, capacity, rpc, list, sched nor e2e", kind))
	return nil, nil
}

// each is how long a benchmark runs in a round: the collector runs a few times meanwhile, on either side.
const each = "250ms"

// stateRows are the store's work: one goroutine, no log.
func stateRows() []row {
	us := func(name, peer, berth, time string, target float64) row {
		return row{
			Row: result.Row{
				Name:   name,
				Unit:   "us",
				Scale:  1e-3,
				Target: target,
			},
			Peer:  benchmark(peerState, peer, time),
			Berth: benchmark(berthState, berth, time),
		}
	}
	same := func(name, bench string, target float64) row {
		return us(name, bench, bench, each, target)
	}
	times := func(name, bench string, n int, target float64) row { // if each makes its own store
		return us(name, bench, bench, fmt.Sprint(n, "x"), target)
	}
	once := func(r row) row {
		r.Once = true
		return r
	}
	heartbeat := func(name string, n int) row {
		r := same(name, fmt.Sprint("Heartbeat/N=", n), 0)
		r.Berth = benchmark(berthRPC, fmt.Sprint("HeartbeatByFleet/N=", n), each)
		return r
	}
	atTen := func(r row) row { r.Target = 1; return r } // where large rows cost least
	page := us("its first page of 100, N=10,000", "PluginGet/N=10000", "PluginPage/N=10000", each, 0)
	page.Bound = 1000
	return []row{
		atTen(same("fingerprint of a known node, N=10", "Fingerprint/N=10", 0)),
		same("fingerprint, N=100", "Fingerprint/N=100", 0),
		same("fingerprint, N=1,000", "Fingerprint/N=1000", 0),
		same("fingerprint, N=10,000", "Fingerprint/N=10000", 600),
		us("fingerprint as a difference, N=10,000", "Fingerprint/N=10000", "FingerprintDiff/N=10000", each, 600),
		atTen(same("fingerprint of a node without plugin, N=10", "FingerprintNoPlugin/N=10", 0)),
		same("fingerprint of a node without plugin, N=1,000", "FingerprintNoPlugin/N=1000", 0),
		same("fingerprint of a node without plugin, N=10,000", "FingerprintNoPlugin/N=10000", 0),
		same("fingerprint, 16 plugins on 1,000 nodes", "FingerprintManyPlugins/P=16", 0),
		atTen(times("fleet of 10 registers, per node", "FleetBoot/N=10", 400, 0)),
		times("fleet of 100 registers, per node", "FleetBoot/N=100", 40, 0),
		times("fleet of 1,000 registers, per node", "FleetBoot/N=1000", 3, 20),
		us("fleet of 1,000 in batches of the log, per node", "FleetBoot/N=1000", "FleetBootBatched/N=1000", "3x",
			20),
		atTen(same("claim or release, R=1", "Claim/R=1", 0)),
		atTen(same("claim or release, R=10", "Claim/R=10", 0)),
		same("claim or release, R=100", "Claim/R=100", 0),
		same("claim or release, R=1,000", "Claim/R=1000", 0),
		same("claim or release, R=10,000", "Claim/R=10000", 400),
		atTen(same("claim or release by a writer, 10 volumes", "ClaimWriter/V=10", 0)),
		same("claim or release by a writer, 10,000 volumes", "ClaimWriter/V=10000", 0),
		atTen(same("claim storm, R=10, per claim", "ClaimStorm/R=10", 0)),
		same("claim storm, R=100, per claim", "ClaimStorm/R=100", 0),
		same("claim storm, R=1,000, per claim", "ClaimStorm/R=1000", 15),
		us("claim storm, R=1,000, in batches of the log", "ClaimStorm/R=1000", "ClaimStormBatched/R=1000", each,
			15),
		atTen(same("plugin read with allocations, N=10", "PluginGet/N=10", 0)),
		same("plugin read with allocations, N=1,000", "PluginGet/N=1000", 0),
		same("plugin read with allocations, N=10,000", "PluginGet/N=10000", 5),
		page,
		same("list 10,000 volumes, no claims", "VolumeList/claims=0", 0),
		same("list 10,000 volumes, 10 claims each", "VolumeList/claims=10", 5),
		heartbeat("heartbeat, 10 nodes",
			10), // no target: the peer's is its count of nodes alone, ours the whole procedure
		heartbeat("heartbeat, 10,000 nodes", 10000),
		atTen(same("allocation update of a plugin's job, N=10", "AllocUpdate/N=10", 0)),
		same("allocation update of a plugin's job, N=1,000", "AllocUpdate/N=1000", 0),
		same("allocation update of a plugin's job, N=10,000", "AllocUpdate/N=10000", 0),
		atTen(same("allocation of a small job ends", "AllocEnds/N=10", 0)),
		same("allocation of a job of 10,000 ends", "AllocEnds/N=10000", 0),
		atTen(same("node down and up, N=10", "NodeStatus/N=10", 0)),
		same("node down and up, N=10,000", "NodeStatus/N=10000", 0),
		once(times("fleet of 10,000 registers, per node", "FleetBoot/N=10000", 1, 200)),
		once(us("fleet of 10,000 in batches of the log, per node", "FleetBoot/N=10000", "FleetBootBatched/N=10000",
			"1x", 200)),
	}
}

// growthRows are berth's hot paths from small to large, and the peer's where it can still be waited for. The
// larger the heap, the rarer it is collected, and the longer each runs.
func growthRows() []row {
	var rows []row
	for _, path := range []struct {
		name, program, bench string // the benchmark up to the size
		peer                 int    // the largest size the peer is run at
		reference            bool
	}{
		{"fingerprint", berthState, "Fingerprint/N=", 10000, false},
		{"fingerprint as a difference", berthState, "FingerprintDiff/N=", 0, false},
		{"node without plugin", berthState, "FingerprintNoPlugin/N=", 10000, false},
		{"claim or release", berthState, "Claim/R=", 10000, false},
		{"claim or release by a writer", berthState, "ClaimWriter/V=", 10000, false},
		{"allocation update", berthState, "AllocUpdate/N=", 10000, false},
		{"allocation ends", berthState, "AllocEnds/N=", 0, false},
		{"node down and up", berthState, "NodeStatus/N=", 10000, false},
		{"heartbeat", berthRPC, "HeartbeatByFleet/N=", 0, false},
		{"one key into the tree alone", berthMVCC, "TreeAlone/indexes=1/N=", 0, true},
		{"five keys into the tree alone", berthMVCC, "TreeAlone/indexes=5/N=", 0, true},
	} {
		for _, n := range []int{10, 100, 1000, 10000, 100000} {
			name := fmt.Sprint(path.bench, n)
			time := "500ms"
			r := row{
				Row: result.Row{
					Name:      fmt.Sprintf("%s, N=%d", path.name, n),
					Unit:      "us",
					Scale:     1e-3,
					Reference: path.reference,
				},
				Berth: benchmark(path.program, name, time),
				Rest:  rest(path.program, name, time),
			}
			if n <= path.peer {
				r.Peer = benchmark(peerState, name, each)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// benchmark runs one benchmark of a test binary for a time, or so many times ("5x"), and returns its number.
func benchmark(program, name, time string) measurement {
	return func(b *bench) (float64, error) {
		out, err := b.run(program, exactly(name), time)
		if err != nil {
			return 0, err
		}
		return metricOf(out, "Benchmark"+name, b.metric)
	}
}

// rest returns the other metrics of a benchmark that has run.
func rest(program, name, time string) func(*bench) (map[string]float64, error) {
	return func(b *bench) (map[string]float64, error) {
		out, err := b.run(program, exactly(name), time)
		all := map[string]float64{}
		for _, metric := range []string{"cpu-ns/unit", "allocs/unit", "B/unit", "collections"} {
			if err == nil {
				all[metric], err = metricOf(out, "Benchmark"+name, metric)
			}
		}
		return all, err
	}
}

// exactly is an expression that the one benchmark matches.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	parts[0] = "^Benchmark" + parts[0][1:]
	return strings.Join(parts, "/")
}

// one runs a benchmark with all its parts, and returns the number of one of these. The others are for other
// rows: their data is made once.
func one(program, name, of string) measurement {
	return func(b *bench) (float64, error) {
		out, err := b.run(program, "^Benchmark"+name+"$", "1x")
		if err != nil {
			return 0, err
		}
		return metricOf(out, "Benchmark"+name+"/"+of, b.metric)
	}
}

// run returns the output of the matching benchmarks in this round.
func (b *bench) run(program, match, time string, flags ...string) ([]byte, error) {
	key := fmt.Sprint(program, match, time, b.round)
	if out, done := b.done[key]; done { // another row has the same side
		return out, nil
	}
	cmd := exec.Command(filepath.Join(b.bin, program),
		append([]string{"-test.run", "^$", "-test.bench", match, "-test.benchtime", time}, flags...)...)
	cmd.Dir = b.bin
	cmd.SysProcAttr = withMe()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	b.done[key] = out
	return out, nil
}

// metricOf finds a metric in the output of benchmarks: the number before its name, in the line of one
// benchmark.
func metricOf(out []byte, name, metric string) (float64, error) {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] != name && !strings.HasPrefix(fields[0], name+"-") { // -2: processors
			continue
		}
		for i, f := range fields {
			if i > 0 && f == metric {
				return strconv.ParseFloat(fields[i-1], 64)
			}
		}
	}
	return 0, fmt.Errorf("no %s of %s in %q", metric, name, out)
}
