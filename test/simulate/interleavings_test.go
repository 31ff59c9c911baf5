package simulate

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

var (
	depthFlag = flag.Int("depth", 0, "the most events of a sequence of TestInterleavings; 0: a few")
	movesFlag = flag.String("moves", "", "one sequence for TestInterleavings to show, such as \"cut n0, time, back n0\"")
)

// plots are the clusters of TestInterleavings: two nodes, a volume for each policy, a job that writes it and
// another one that waits for it. With a rule, the allocations of a lost node may come back.
var plots = []struct {
	name     string
	policies []string
	rule     *structs.DisconnectStrategy
	few      int    // events without a flag
	copies   int    // events of those with a copy of n0, without a flag; 0: there are none
	reaches  string // a moment that they reach
}{
	{"hold", []string{structs.LossHold}, nil, 4, 3, "the entry NodeStatus"},
	{"fence", []string{structs.LossFence}, nil, 5, 0, "the device runs for n0"},
	{"lease", []string{structs.LossLease}, nil, 5, 4, "volume v0 is mounted on n1"},
	{"all", policies, nil, 4, 0, "the entry FenceBegin"},
	{"lease with disconnect", []string{structs.LossLease},
		&structs.DisconnectStrategy{LostAfter: time.Minute}, 4, 0, "the entry LeaseProof"},
}

// TestInterleavings performs all sequences of events up to a length. Each event comes at one of the moments
// at which its order decides: see script. Each sequence is a cluster of its own, which calms down after the
// last event. Those without effect have an event "time" after which no moment comes.
func TestInterleavings(t *testing.T) {
	for i, p := range plots {
		t.Run(p.name, func(t *testing.T) {
			x := &exploration{
				t:       t,
				plot:    i,
				depth:   cmp.Or(*depthFlag, p.few),
				log:     io.Discard,
				moments: map[string]bool{},
			}
			if *movesFlag != "" {
				x.show(*movesFlag)
				return
			}
			began := time.Now()
			x.explore(nil)
			fmt.Printf("%s: depth: %d, sequences: %d, without effect: %d, entries: %d, seconds: %.1f, violations: %d\n",
				p.name, x.depth, x.sequences, x.idle, x.entries, time.Since(began).Seconds(), x.violations)
			if x.depth >= p.few && !x.moments[p.reaches] {
				t.Errorf("no sequence reaches %q: %v", p.reaches, slices.Sorted(maps.Keys(x.moments)))
			}
		})
	}
}

// exploration follows the sequences of a plot, depth first.
type exploration struct {
	t          *testing.T
	plot       int
	depth      int
	log        io.Writer
	sequences  int
	idle       int
	entries    int
	violations int             // sequences with one
	moments    map[string]bool // that were reached
}

// mostViolations ends an exploration.
const mostViolations = 10

// explore performs a sequence and all that begin with it.
func (x *exploration) explore(moves []move) {
	s := x.run(moves)
	x.entries += len(s.w.entries)
	if s.idle {
		x.idle++
		return
	}
	x.sequences++
	for _, moment := range s.moment {
		x.moments[moment] = true
	}
	if s.w.violations > 0 {
		x.violations++
		x.t.Errorf("%v, at %q:\n%s", moves, s.moment, strings.Join(s.w.texts, "\n"))
		return
	}
	if len(moves) >= x.depthOf(moves) || x.violations >= mostViolations {
		return
	}
	for _, m := range s.after {
		x.explore(append(moves[:len(moves):len(moves)], m))
	}
}

// depthOf returns the most events of the sequences that begin with some.
func (x *exploration) depthOf(moves []move) int {
	if *depthFlag == 0 && slices.Contains(moves, move{startCopy, 0}) {
		return plots[x.plot].copies
	}
	return x.depth
}

// show performs one sequence and prints the log of its cluster.
func (x *exploration) show(names string) {
	x.log = os.Stdout
	s := x.run(movesOf(x.t, names))
	if s.w.violations > 0 || s.idle {
		x.t.Errorf("without effect: %v; %s", s.idle, strings.Join(s.w.texts, "\n"))
	}
}

func (x *exploration) run(moves []move) (s *script) {
	cryptotest.SetGlobalRandom(x.t, *seedFlag)
	synctest.Test(x.t, func(*testing.T) {
		w := newPlot(x.plot, *seedFlag, x.log)
		s = &script{
			w:      w,
			moves:  moves,
			copies: plots[x.plot].copies > 0,
		}
		w.follow(s)
	})
	return s
}

// plotClocks are by how much the wall clocks of the servers and of the nodes are ahead in each plot.
var plotClocks = [3]time.Duration{0, 30 * time.Hour, -21 * 24 * time.Hour}

// newPlot makes the cluster of a plot. The seed decides how long all takes that is not a moment.
func newPlot(plot int, seed uint64, log io.Writer) *world {
	w := &world{
		Rand:  rand.New(rand.NewPCG(seed, 0)),
		log:   log,
		began: time.Now(),
		store: state.New(),
		seen:  newSeen(),
		quiet: true,
		rule:  plots[plot].rule,
	}
	w.quarantine = time.Hour
	w.fsm = fsm.New(w.store)
	for i, name := range serverNames {
		w.addServer(name, clocks{w: w, ahead: plotClocks[i]})
	}
	w.device = &device{w: w, mode: deviceWorks}
	for i := range 2 {
		w.nodes = append(w.nodes, &node{
			w:      w,
			id:     fmt.Sprint("n", i),
			clocks: clocks{w: w, ahead: plotClocks[i]},
			ledger: map[string][]structs.CSIClaimKey{},
			ended:  map[string]ending{},
		})
	}
	for i, policy := range plots[plot].policies {
		w.volumes = append(w.volumes, &volume{id: fmt.Sprint("v", i), policy: policy})
	}
	return w
}

// follow is the life of a cluster with a script. The jobs have their volumes when it begins, and others wait.
func (w *world) follow(s *script) {
	ctx := context.Background()
	w.script = s
	w.followClocks()
	w.elect()
	for _, n := range w.nodes {
		n.powerOn()
	}
	w.pass(ctx, 30*time.Second)
	for _, v := range w.volumes {
		w.putVolume(v)
		w.jobs = append(w.jobs, v.id)
		w.register(v.id)
	}
	w.pass(ctx, 15*time.Second)
	for _, v := range w.volumes {
		w.jobs = append(w.jobs, v.id+"-next")
		w.register(v.id + "-next")
	}
	w.pass(ctx, 5*time.Second)
	for _, v := range w.volumes {
		if len(v.mounts) != 1 {
			w.violate(nothingStuck, "volume %s has %d tasks before the first move", v.id, len(v.mounts))
		}
	}
	s.play(ctx)
	for c := w.nodes[0].copy; c != nil && c.isOn(); {
		w.pass(ctx, time.Second) // a node that is cut off stays so meanwhile
	}
	w.calmDown(ctx)
	w.checkReplay()
}
