// Command compare runs the same work on the peer and on berth in turn, A B A B, and prints one line per row:
//
//	name | peer | berth | ratio (least to greatest of the rounds)
//
// The peer's numbers come from this module, berth's from test and load programs of berth's own module: their
// libraries cannot be in one binary. A row's number is the median of its rounds, on both sides. The ratio is
// of the two medians.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/bench/peer/result"
)

// row is one line of the output with the measurements of its sides, nil for a side without a number.
type row struct {
	result.Row
	Once     bool // it takes minutes, so only the first round has it
	PeerOnce bool // the same for the peer alone
	Phase    int  // its rounds begin after the earlier phases
	Peer     measurement
	Berth    measurement
	Rest     func(*bench) (map[string]float64, error) // further metrics of berth
}

// measurement measures the number of one side of a row.
type measurement func(*bench) (float64, error)

// bench has the programs and settings of the measurements.
type bench struct {
	bin     string // where the programs are
	metric  string
	peer    *process
	berth   *process
	round   int
	done    map[string][]byte  // the output of benchmarks, by name and round
	numbers map[string]numbers // of scenarios, by number, product and round
	scratch string             // folder of the files of scenarios
	failed  int                // rows of which a side could not be measured
}

func main() {
	bin := flag.String("bin", "bin/bench", "folder of the programs that scripts/bench-peer.sh builds")
	kind := flag.String("kind", "state", "kind of rows: state, growth, memory, capacity, rpc, list, sched or e2e")
	metric := flag.String("metric", "ns/unit",
		"of the benchmarks: ns/unit (the clock) or cpu-ns/unit (CPU time, collector included)")
	rounds := flag.Int("rounds", 3, "times each row is run on each side")
	only := flag.String("only", "", "expression for the names of the rows to run")
	side := flag.String("side", "", "peer or berth alone, for profiles; both if empty")
	commit := flag.String("commit", "", "berth's, for the file")
	out := flag.String("o", "", "also write the rows as JSON to this file")
	flag.Parse()
	abs, err := filepath.Abs(*bin)
	check(err)
	b := &bench{
		bin:     abs,
		metric:  *metric,
		done:    map[string][]byte{},
		numbers: map[string]numbers{},
	}
	f := &result.File{
		Kind:   *kind,
		Commit: *commit,
		Date:   time.Now().UTC().Format(time.DateTime),
		Rounds: *rounds,
	}
	f.Load[0] = loadAverage()
	rows, stop := b.rows(*kind)
	if *only != "" {
		match := regexp.MustCompile(*only)
		rows = slices.DeleteFunc(rows, func(r row) bool {
			return !match.MatchString(r.Name)
		})
	}
	for i := range rows {
		switch *side {
		case "peer":
			rows[i].Berth = nil
		case "berth":
			rows[i].Peer = nil
		}
	}
	b.measure(rows, *rounds)
	f.Load[1] = loadAverage()
	fmt.Println("name | peer | berth | ratio")
	for _, r := range rows {
		f.Rows = append(f.Rows, r.Row)
		fmt.Println(line(&r.Row))
	}
	if *out != "" {
		check(f.Write(*out))
	}
	stop() // it may fail, so the results come first
	if b.failed > 0 {
		check(fmt.Errorf("%d measurements failed", b.failed))
	}
}

// measure runs all rounds of the rows, phase by phase.
func (b *bench) measure(rows []row, rounds int) {
	last := 0
	for _, r := range rows {
		last = max(last, r.Phase)
	}
	for phase := range last + 1 {
		for b.round = range rounds {
			start := time.Now()
			for i := range rows {
				if rows[i].Phase == phase && !(rows[i].Once && b.round > 0) {
					b.measureOne(&rows[i])
				}
			}
			fmt.Fprintf(os.Stderr, "round %d took %s\n",
				b.round+1, time.Since(start).Round(time.Second))
		}
	}
}

func (b *bench) measureOne(r *row) {
	at, peer := time.Now(), 0.0
	if !r.PeerOnce || b.round == 0 {
		peer = b.number("peer", r, r.Peer)
	}
	between := time.Now()
	r.Add(peer, b.number("berth", r, r.Berth))
	if r.Rest != nil {
		var err error
		r.More, err = r.Rest(b)
		if err != nil {
			b.failed++
			fmt.Fprintf(os.Stderr, "%s: %v\n", r.Name, err)
		}
	}
	fmt.Fprintf(os.Stderr, "round %d, %s: %s and %s\n", b.round+1, r.Name,
		between.Sub(at).Round(time.Millisecond), time.Since(between).Round(time.Millisecond))
}

func (b *bench) number(side string, r *row, measure measurement) float64 {
	if measure == nil {
		return 0
	}
	n, err := measure(b)
	if err != nil {
		b.failed++
		fmt.Fprintf(os.Stderr, "%s of the %s: %v\n", r.Name, side, err)
	}
	return n
}

// loadAverage is how many processes wanted to run, over the last minute.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	check(err)
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseFloat(first, 64)
	check(err)
	return n
}

func line(r *result.Row) string {
	s := fmt.Sprintf("%s | %s | %s | ",
		r.Name, amount(r.Peer, r), amount(r.Berth, r))
	if r.Ratio == 0 {
		s += "-"
	} else {
		s += fmt.Sprintf("%.3gx (%.3g to %.3g)", r.Ratio, r.Low, r.High)
	}
	met, wanted := r.Met()
	switch {
	case !wanted:
		return s
	case r.Target > 0:
		s += fmt.Sprintf(" wanted %gx", r.Target)
	default:
		s += fmt.Sprintf(" wanted %g %s", r.Bound, r.Unit)
	}
	if met {
		s += ": met"
	}
	ratio, met := r.BoundAsRatio()
	if ratio > 0 {
		s += fmt.Sprintf(", as a ratio %.3gx", ratio)
	}
	if ratio > 0 && met {
		s += ": met"
	}
	return s
}

func amount(n float64, r *result.Row) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g %s", n*r.Scale, r.Unit)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}
