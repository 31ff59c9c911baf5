// Command compare runs the same work on the peer and on berth in turn, A B A B, and prints one line per row:
//
//	name | peer | berth | ratio
//
// The peer's numbers come from this module, berth's from test and load programs built in berth's own: their
// libraries cannot live in one binary. A row's number is the least of its rounds, which is what the machine
// does when nobody else is using it; the ratio is of two numbers from the same run.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// row is one line of the answer. Unit scales numbers for reading; with Inverse more is better.
type row struct {
	Name    string
	Unit    string
	Scale   float64
	Inverse bool
	Target  float64 // the ratio that is wanted; 0: none
	Once    bool    // it takes minutes: in the first round alone
	Peer    func(*bench) (float64, error)
	Berth   func(*bench) (float64, error)
}

// bench is what rows are measured with.
type bench struct {
	bin    string // where the programs are
	metric string
	peer   *process
	berth  *process
	round  int
	done   map[string][]byte // what benchmarks printed, by name and round
}

// measured is a row with what came of it, as it is written for the plot.
type measured struct {
	Name        string
	Unit        string
	Peer, Berth float64
	Ratio       float64
	Target      float64
}

func main() {
	bin := flag.String("bin", "bin/bench", "folder of the programs that scripts/bench-peer.sh builds")
	kind := flag.String("kind", "state", "what to measure: state, growth, memory or rpc")
	metric := flag.String("metric", "ns/unit", "of the benchmarks: ns/unit (the clock) or cpu-ns/unit (CPU time, collector included)")
	rounds := flag.Int("rounds", 3, "times each row is run on each side")
	only := flag.String("only", "", "expression for the names of the rows to run")
	out := flag.String("o", "", "also write the rows as JSON to this file")
	flag.Parse()
	abs, err := filepath.Abs(*bin)
	check(err)
	b := &bench{bin: abs, metric: *metric, done: map[string][]byte{}}
	rows, stop := b.rows(*kind)
	defer stop()
	if *only != "" {
		match := regexp.MustCompile(*only)
		rows = slices.DeleteFunc(rows, func(r row) bool { return !match.MatchString(r.Name) })
	}
	results := make([]measured, len(rows))
	for b.round = range *rounds {
		for i, r := range rows {
			if r.Once && b.round > 0 {
				continue
			}
			results[i].take(r, r.run("peer", r.Peer, b), r.run("berth", r.Berth, b))
		}
	}
	fmt.Println("name | peer | berth | ratio")
	for i, r := range rows {
		results[i].print(r)
	}
	if *out != "" {
		text, err := json.MarshalIndent(results, "", "\t")
		check(err)
		check(os.WriteFile(*out, append(text, '\n'), 0o644))
	}
}

func (r row) run(side string, measure func(*bench) (float64, error), b *bench) float64 {
	if measure == nil {
		return 0
	}
	n, err := measure(b)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s of the %s: %v\n", r.Name, side, err)
	}
	return n
}

// take keeps the best of what was measured so far.
func (m *measured) take(r row, peer, berth float64) {
	m.Name, m.Unit, m.Target = r.Name, r.Unit, r.Target
	m.Peer, m.Berth = better(r, m.Peer, peer), better(r, m.Berth, berth)
	switch {
	case m.Peer == 0 || m.Berth == 0:
	case r.Inverse:
		m.Ratio = m.Berth / m.Peer
	default:
		m.Ratio = m.Peer / m.Berth
	}
}

func better(r row, old, now float64) float64 {
	switch {
	case old == 0:
		return now
	case now == 0:
		return old
	case r.Inverse:
		return max(old, now)
	}
	return min(old, now)
}

func (m *measured) print(r row) {
	fmt.Printf("%s | %s | %s | ", r.Name, amount(m.Peer, r), amount(m.Berth, r))
	switch {
	case m.Ratio == 0:
		fmt.Println("-")
	case m.Target == 0:
		fmt.Printf("%.3gx\n", m.Ratio)
	case m.Ratio >= m.Target:
		fmt.Printf("%.3gx (wanted %gx: met)\n", m.Ratio, m.Target)
	default:
		fmt.Printf("%.3gx (wanted %gx)\n", m.Ratio, m.Target)
	}
}

func amount(n float64, r row) string {
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
