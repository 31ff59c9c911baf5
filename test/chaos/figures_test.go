package chaos

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	figuresFlag = flag.String("figures", "", "the figures to measure, with commas between them, or all; none: a short form")
	runsFlag    = flag.Int("runs", 0, "the runs of each figure; 0: the usual number")
)

// figure is a measurement on a cluster that has no other faults.
type figure struct {
	name    string
	nodes   int
	jobs    []*job // each writes to its volume
	runs    int    // the usual number
	measure func(w *world) error
}

// figureKinds has all figures: see docs/reliability.md.
func figureKinds() []*figure {
	return []*figure{
		{name: "leader-stall", runs: 11, measure: measureLeaderStall},
		{name: "power-loss", nodes: 4, jobs: lossJobs(), runs: 11, measure: measurePowerLoss},
		{name: "agent-kills", nodes: 1, runs: 50, measure: measureAgentKills},
	}
}

// TestFigures measures the figures of docs/reliability.md and prints a table. Without flags it is a short
// form of one figure. `make reliability-figures` runs it with flags. An aim that is missed is in the table
// and fails no test: a busy machine is slow.
func TestFigures(t *testing.T) {
	chosen := *figuresFlag
	runs := *runsFlag
	if chosen == "" {
		chosen = "leader-stall"
		runs = 1
	}
	printRow("", "runs", "min", "median", "max", "aim", "")
	for _, f := range chooseFigures(t, chosen) {
		runUnderKeeper(t, "-figure", f.name, "-runs", fmt.Sprint(cmp.Or(runs, f.runs)))
	}
}

// chooseFigures returns the figures with some names.
func chooseFigures(t *testing.T, names string) (chosen []*figure) {
	t.Helper()
	kinds := figureKinds()
	if names == "all" {
		return kinds
	}
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(kinds, func(f *figure) bool { return f.name == name })
		if i < 0 {
			t.Fatalf("no figure %q", name)
		}
		chosen = append(chosen, kinds[i])
	}
	return chosen
}

// runFigure measures a figure. Its notes go to a file, and to the output if it fails.
func (w *world) runFigure() int {
	for _, f := range figureKinds() {
		if f.name != w.figure {
			continue
		}
		notes, err := os.Create(filepath.Join(w.dir, "notes"))
		if err != nil {
			fmt.Println("figures:", err)
			return 1
		}
		w.log = notes
		w.nodeCount = f.nodes
		w.jobs = f.jobs
		w.phase = w.draws(0)
		err = errors.Join(w.measure(f), notes.Close())
		if err == nil {
			return 0
		}
		text, _ := os.ReadFile(notes.Name())
		fmt.Printf("%sfigures: %s: %v\n", text, f.name, err)
	}
	return 1
}

func (w *world) measure(f *figure) error {
	if err := w.prepare(); err != nil {
		return err
	}
	if err := f.measure(w); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.violations > 0 {
		return fmt.Errorf("%d violations", w.violations)
	}
	return nil
}

// aim bounds the times of some runs.
type aim struct {
	most   time.Duration
	median bool // it bounds the median; otherwise each time
}

// printTimes prints the row of some runs.
func printTimes(name string, times []time.Duration, to aim) {
	slices.Sort(times)
	median := times[len(times)/2]
	longest := times[len(times)-1]
	whose := "each"
	bounded := longest
	if to.median {
		whose = "median"
		bounded = median
	}
	missed := ""
	if bounded > to.most {
		missed = "missed"
	}
	printRow(name, len(times), seconds(times[0]), seconds(median), seconds(longest),
		fmt.Sprintf("%s %g s", whose, to.most.Seconds()), missed)
}

// printCount prints the row of a number that has to be 0, and returns an error if it is not.
func printCount(name string, runs, count int) error {
	printRow(name, runs, "", "", count, "0", "")
	if count > 0 {
		return fmt.Errorf("%s: %d; want 0", name, count)
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// printRow prints the name, the number of runs, the least, the median, the most, the aim, and whether it is
// missed.
func printRow(columns ...any) {
	fmt.Println(strings.TrimRight(fmt.Sprintf("%-62v %4v %8v %8v %8v  %-11v %v", columns...), " "))
}

// startAll starts all machines, and waits until all servers vote and all nodes are ready.
func (w *world) startAll() error {
	for _, m := range w.all {
		if err := errors.Join(m.powerOn(), m.startAgent()); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return errors.Join(
		await(settleFor, w.haveRights),
		await(settleFor, w.voters),
		await(settleFor, w.nodesReady))
}
