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
)

// rows are those of a kind; stop ends what they have started.
func (b *bench) rows(kind string) (rows []row, stop func()) {
	switch kind {
	case "state":
		return stateRows(), func() {}
	case "growth":
		return growthRows(), func() {}
	case "memory":
		return memoryRows(), func() {}
	case "capacity":
		return capacityRows(), func() {}
	case "rpc":
		return b.rpcRows()
	}
	check(fmt.Errorf("%q is neither state, growth, memory, capacity nor rpc", kind))
	return nil, nil
}

// stateRows are the store's work: one goroutine, no log.
func stateRows() []row {
	us := func(name, peer, berth string, times int, target float64) row {
		return row{Row: result.Row{Name: name, Unit: "us", Scale: 1e-3, Target: target}, Peer: benchmark(peerState, peer, times), Berth: benchmark(berthState, berth, times)}
	}
	same := func(name, bench string, times int, target float64) row { return us(name, bench, bench, times, target) }
	once := func(r row) row { r.Once = true; return r }
	heartbeat := func(name string, n int) row {
		r := same(name, fmt.Sprint("Heartbeat/N=", n), 200, 0)
		r.Berth = benchmark(berthRPC, fmt.Sprint("HeartbeatByFleet/N=", n), 2000)
		return r
	}
	atTen := func(r row) row { r.Target = 1; return r } // where fat rows are cheapest
	page := us("its first page of 100, N=10,000", "PluginGet/N=10000", "PluginPage/N=10000", 20, 0)
	page.Bound = 1000
	return []row{
		atTen(same("fingerprint of a known node, N=10", "Fingerprint/N=10", 1000, 0)),
		same("fingerprint, N=100", "Fingerprint/N=100", 1000, 0),
		same("fingerprint, N=1,000", "Fingerprint/N=1000", 300, 0),
		same("fingerprint, N=10,000", "Fingerprint/N=10000", 100, 600),
		us("fingerprint as a difference, N=10,000", "Fingerprint/N=10000", "FingerprintDiff/N=10000", 100, 600),
		atTen(same("fingerprint of a node without plugin, N=10", "FingerprintNoPlugin/N=10", 1000, 0)),
		same("fingerprint of a node without plugin, N=1,000", "FingerprintNoPlugin/N=1000", 300, 0),
		same("fingerprint of a node without plugin, N=10,000", "FingerprintNoPlugin/N=10000", 100, 0),
		same("fingerprint, 16 plugins on 1,000 nodes", "FingerprintManyPlugins/P=16", 100, 0),
		atTen(same("fleet of 10 registers, per node", "FleetBoot/N=10", 100, 0)),
		same("fleet of 100 registers, per node", "FleetBoot/N=100", 20, 0),
		same("fleet of 1,000 registers, per node", "FleetBoot/N=1000", 2, 20),
		us("fleet of 1,000 in batches of the log, per node", "FleetBoot/N=1000", "FleetBootBatched/N=1000", 2, 20),
		atTen(same("claim or release, R=1", "Claim/R=1", 1000, 0)),
		atTen(same("claim or release, R=10", "Claim/R=10", 1000, 0)),
		same("claim or release, R=100", "Claim/R=100", 1000, 0),
		same("claim or release, R=1,000", "Claim/R=1000", 300, 0),
		same("claim or release, R=10,000", "Claim/R=10000", 50, 400),
		atTen(same("claim or release by a writer, 10 volumes", "ClaimWriter/V=10", 1000, 0)),
		same("claim or release by a writer, 10,000 volumes", "ClaimWriter/V=10000", 1000, 0),
		atTen(same("claim storm, R=10, per claim", "ClaimStorm/R=10", 20, 0)),
		same("claim storm, R=100, per claim", "ClaimStorm/R=100", 10, 0),
		same("claim storm, R=1,000, per claim", "ClaimStorm/R=1000", 2, 15),
		us("claim storm, R=1,000, in batches of the log", "ClaimStorm/R=1000", "ClaimStormBatched/R=1000", 2, 15),
		atTen(same("plugin read with allocations, N=10", "PluginGet/N=10", 500, 0)),
		same("plugin read with allocations, N=1,000", "PluginGet/N=1000", 50, 0),
		same("plugin read with allocations, N=10,000", "PluginGet/N=10000", 20, 5),
		page,
		same("list 10,000 volumes, no claims", "VolumeList/claims=0", 10, 0),
		same("list 10,000 volumes, 10 claims each", "VolumeList/claims=10", 10, 5),
		heartbeat("heartbeat, 10 nodes", 10), // no target: the peer's is its count of nodes alone, ours the whole procedure
		heartbeat("heartbeat, 10,000 nodes", 10000),
		atTen(same("allocation update of a plugin's job, N=10", "AllocUpdate/N=10", 1000, 0)),
		same("allocation update of a plugin's job, N=1,000", "AllocUpdate/N=1000", 200, 0),
		same("allocation update of a plugin's job, N=10,000", "AllocUpdate/N=10000", 100, 0),
		atTen(same("allocation of a small job ends", "AllocEnds/N=10", 200, 0)),
		same("allocation of a job of 10,000 ends", "AllocEnds/N=10000", 200, 0),
		atTen(same("node down and up, N=10", "NodeStatus/N=10", 200, 0)),
		same("node down and up, N=10,000", "NodeStatus/N=10000", 100, 0),
		once(same("fleet of 10,000 registers, per node", "FleetBoot/N=10000", 1, 200)),
		once(us("fleet of 10,000 in batches of the log, per node", "FleetBoot/N=10000", "FleetBootBatched/N=10000", 1, 200)),
	}
}

// growthRows are berth's hot paths from small to large, and the peer's where it can still be waited for.
func growthRows() []row {
	var rows []row
	for _, path := range []struct {
		name, bench, variable string
		sizes                 []int
		peer                  int // the largest size the peer is run at
	}{
		{"fingerprint", "Fingerprint", "N", []int{10, 100, 1000, 10000, 100000}, 10000},
		{"fingerprint as a difference", "FingerprintDiff", "N", []int{10, 100, 1000, 10000, 100000}, 0},
		{"node without plugin", "FingerprintNoPlugin", "N", []int{10, 100, 1000, 10000, 100000}, 10000},
		{"claim or release", "Claim", "R", []int{10, 100, 1000, 10000, 100000}, 10000},
		{"claim or release by a writer", "ClaimWriter", "V", []int{10, 100, 1000, 10000, 100000}, 0},
		{"allocation update", "AllocUpdate", "N", []int{10, 100, 1000, 10000, 100000}, 10000},
		{"allocation ends", "AllocEnds", "N", []int{10, 100, 1000, 10000, 100000}, 0},
		{"node down and up", "NodeStatus", "N", []int{10, 100, 1000, 10000, 100000}, 0},
		{"heartbeat", "Heartbeat", "N", []int{10, 100, 1000, 10000, 100000}, 0},
	} {
		for _, n := range path.sizes {
			bench := fmt.Sprintf("%s/%s=%d", path.bench, path.variable, n)
			r := row{Row: result.Row{Name: fmt.Sprintf("%s, %s=%d", path.name, path.variable, n), Unit: "us", Scale: 1e-3}, Berth: benchmark(berthState, bench, 2000)}
			if n <= path.peer {
				r.Peer = benchmark(peerState, bench, max(20, 200000/max(n, 400)))
			}
			if path.bench == "Heartbeat" {
				r.Berth = benchmark(berthRPC, "HeartbeatByFleet/"+fmt.Sprintf("N=%d", n), 5000)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// benchmark runs one benchmark of a test binary so many times and returns its number.
func benchmark(program, name string, times int) func(*bench) (float64, error) {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	parts[0] = "^Benchmark" + parts[0][1:]
	return func(b *bench) (float64, error) {
		out, err := b.run(program, strings.Join(parts, "/"), times)
		if err != nil {
			return 0, err
		}
		return metricOf(out, "Benchmark"+name, b.metric)
	}
}

// one runs a benchmark with all that is in it, and returns the number of one of these. The others are there
// for other rows: what they are measured on is made once.
func one(program, name, of string) func(*bench) (float64, error) {
	return func(b *bench) (float64, error) {
		out, err := b.run(program, "^Benchmark"+name+"$", 1)
		if err != nil {
			return 0, err
		}
		return metricOf(out, "Benchmark"+name+"/"+of, b.metric)
	}
}

// run returns what the benchmarks that match printed, in this round.
func (b *bench) run(program, match string, times int) ([]byte, error) {
	key := fmt.Sprint(program, match, times, b.round)
	if out, done := b.done[key]; done { // another row has the same side
		return out, nil
	}
	cmd := exec.Command(filepath.Join(b.bin, program), "-test.run", "^$", "-test.bench", match, "-test.benchtime", strconv.Itoa(times)+"x")
	cmd.Dir, cmd.SysProcAttr = b.bin, withMe()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	b.done[key] = out
	return out, nil
}

// metricOf finds a metric in what benchmarks printed: the number before its name, in the line of the one.
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
