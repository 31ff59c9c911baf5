package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/scheduler/place"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// racks registers a number of nodes for each rack, with IDs in no order of the racks. It checks no invariant,
// because there may be many nodes.
func (w *fixture) racks(sizes map[string]int) {
	w.t.Helper()
	batch := w.s.Begin()
	for _, rack := range slices.Sorted(maps.Keys(sizes)) {
		for i := range sizes[rack] {
			n := aNode(fmt.Sprintf("%04d-%s", (i*7919)%9973, rack))
			n.Meta["rack"] = rack
			w.index++
			err := batch.Apply(w.index, func(tx *state.WriteTx) error {
				return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.now()})
			})
			if err != nil {
				w.t.Fatal(err)
			}
		}
	}
	batch.Commit()
}

// perRack counts the live allocations of a job by rack.
func (w *fixture) perRack(job string) map[string]int {
	counts := map[string]int{}
	for _, a := range w.allocs(job) {
		counts[state.Node(w.s.Read(), a.NodeID).Meta["rack"]]++
	}
	return counts
}

func affinity(left, operand, right string, weight int8) *structs.Affinity {
	return &structs.Affinity{LTarget: left, Operand: operand, RTarget: right, Weight: weight}
}

func prefersRack(rack string, weight int8) func(*structs.Job) {
	return func(j *structs.Job) {
		j.Affinities = append(j.Affinities, affinity("${meta.rack}", "=", rack, weight))
	}
}

// spreadOver gives the group a spread over racks: value, percent, ...
func spreadOver(attribute string, weight int8, targets ...any) func(*structs.Job) {
	return func(j *structs.Job) {
		s := &structs.Spread{Attribute: attribute, Weight: weight}
		for i := 0; i < len(targets); i += 2 {
			s.SpreadTarget = append(s.SpreadTarget, &structs.SpreadTarget{
				Value:   targets[i].(string),
				Percent: uint8(targets[i+1].(int)),
			})
		}
		j.TaskGroups[0].Spreads = append(j.TaskGroups[0].Spreads, s)
	}
}

func TestAffinity_PrefersNodesAndAvoidsThem(t *testing.T) {
	for _, c := range []struct {
		weight int8
		want   string
	}{{80, "r2"}, {-80, "r1"}} {
		w := newFixture(t)
		w.racks(map[string]int{"r1": 3, "r2": 3})
		w.job(aJob("web", structs.JobService, count(1), prefersRack("r2", c.weight)))
		w.run("web")
		if got := w.perRack("web"); got[c.want] != 1 {
			t.Errorf("weight %d: got %v, want 1 on %s", c.weight, got, c.want)
		}
	}
}

func TestAffinity_AddsTheWeightsOfJobGroupAndTask(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	j := aJob("web", structs.JobService, prefersRack("r1", 50))
	j.TaskGroups[0].Affinities = []*structs.Affinity{affinity("${node.datacenter}", "regexp", "^dc", 30)}
	j.TaskGroups[0].Tasks[0].Affinities = []*structs.Affinity{
		affinity("${attr.kernel.version}", "version", ">= 6", -40),
		affinity("${attr.none}", "is_set", "", 80),
	}
	w.job(j)
	p := w.run("web")
	got := p.Place[0].Metrics.ScoreMetaData[0].Scores["node-affinity"]
	if want := (50.0 + 30 - 40) / (50 + 30 + 40 + 80); math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A preference finds the few nodes for which it holds, although a sample has fewer nodes than the fleet.
func TestPreferences_FindRareNodes(t *testing.T) {
	for name, edit := range map[string]func(*structs.Job){
		"affinity": prefersRack("rare", 100),
		"spread":   spreadOver("${meta.rack}", 100, "rare", 100),
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.racks(map[string]int{"common": 300, "rare": 3})
			w.job(aJob("web", structs.JobService, count(6), edit))
			p := w.run("web")
			if got := w.perRack("web"); got["rare"] != 6 {
				t.Errorf("got %v, want all on the rare rack", got)
			}
			if m := p.Place[5].Metrics; m.NodesEvaluated > readAhead {
				t.Errorf("%d nodes were evaluated, at most %d may be", m.NodesEvaluated, readAhead)
			}
		})
	}
}

func TestPreferences_ReadAPartOfALargeFleet(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": 1500})
	w.job(aJob("web", structs.JobService, count(3), spreadOver("${meta.rack}", 100)))
	p := w.run("web")
	for _, a := range p.Place {
		if n := a.Metrics.NodesEvaluated; n < place.Enough || n > readAhead+readBatch {
			t.Errorf("%d nodes were evaluated, want between %d and %d", n, place.Enough, readAhead)
		}
	}
}

// A sample has capacity for a few of many classes: it has those with the best rating.
func TestPreferences_BeginWithTheBestOfManyClasses(t *testing.T) {
	w := newFixture(t)
	sizes := map[string]int{}
	edits := []func(*structs.Job){prefersRack("r30", 100)}
	for i := range 60 {
		rack := fmt.Sprintf("r%02d", i)
		sizes[rack] = 2
		if i != 30 {
			edits = append(edits, prefersRack(rack, int8(-1-i)))
		}
	}
	w.racks(sizes)
	w.job(aJob("web", structs.JobService, edits...))
	w.run("web")
	if got := w.perRack("web"); got["r30"] != 1 {
		t.Errorf("got %v, want the only rack that is preferred", got)
	}
}

// The nodes of a small class take more than one allocation each, while others are free and not all are read.
func TestSpread_UsesTheNodesOfASmallClassAgain(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": readAhead + 500, "r2": 100})
	w.job(aJob("web", structs.JobService, count(150), cpu(10), spreadOver("${meta.rack}", 50, "r2", 100)))
	w.run("web")
	if got := w.perRack("web"); got["r2"] != 150 {
		t.Errorf("got %v, want all on rack r2", got)
	}
}

// Every node has a value of its own, so there are more values than classes of nodes.
func TestSpread_OverMoreValuesThanClasses(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": 2 * mostClass})
	w.job(aJob("web", structs.JobService, count(40), spreadOver("${node.unique.id}", 100)))
	w.run("web")
	used := map[string]bool{}
	for _, a := range w.allocs("web") {
		used[a.NodeID] = true
	}
	if len(used) != 40 {
		t.Errorf("40 allocations are on %d nodes", len(used))
	}
}

func TestSpread_DistributesEvenly(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": 40, "r2": 20, "r3": 5})
	w.job(aJob("web", structs.JobService, count(31), spreadOver("${meta.rack}", 50)))
	p := w.run("web")
	got := w.perRack("web")
	for rack, n := range got {
		if n < 10 || n > 11 {
			t.Errorf("rack %s has %d of 31 allocations: %v", rack, n, got)
		}
	}
	if len(got) != 3 {
		t.Errorf("got %v", got)
	}
	score, has := p.Place[1].Metrics.ScoreMetaData[0].Scores["allocation-spread"]
	if !has || score <= 0 {
		t.Errorf("the second allocation has the score %v, %v", score, has)
	}
}

func TestSpread_FollowsItsTargets(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": 20, "r2": 20, "r3": 20, "r4": 20})
	w.job(aJob("web", structs.JobService, count(20), spreadOver("${meta.rack}", 50, "r1", 50, "r2", 30, "r3", 0)))
	w.run("web")
	want := map[string]int{"r1": 10, "r2": 6, "r4": 4} // r4 has the rest
	if got := w.perRack("web"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	w.job(aJob("web", structs.JobService, count(40), spreadOver("${meta.rack}", 50, "r1", 50, "r2", 30, "r3", 0)))
	w.run("web") // counts those that run
	want = map[string]int{"r1": 20, "r2": 12, "r4": 8}
	if got := w.perRack("web"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSpread_CountsByItsWeight(t *testing.T) {
	for _, c := range []struct {
		racks, classes int8
		want           string
	}{{90, 10, "r2"}, {10, 90, "r1"}} {
		w := newFixture(t)
		for i := range 10 {
			n := aNode(fmt.Sprintf("a%d", i))
			n.NodeClass = "wanted"
			w.node(n)
			n = aNode(fmt.Sprintf("b%d", i))
			n.Meta["rack"] = "r2"
			w.node(n)
		}
		w.job(aJob("web", structs.JobService, count(4),
			spreadOver("${meta.rack}", c.racks, "r2", 100), spreadOver("${node.class}", c.classes, "wanted", 100)))
		w.run("web")
		if got := w.perRack("web"); got[c.want] != 4 {
			t.Errorf("weights %d and %d: got %v, want all on %s", c.racks, c.classes, got, c.want)
		}
	}
}

func TestSpread_AvoidsNodesWithoutTheAttribute(t *testing.T) {
	w := newFixture(t)
	for i := range 5 {
		n := aNode(fmt.Sprintf("a%d", i))
		delete(n.Meta, "rack")
		w.node(n)
	}
	w.nodes("b1", "b2")
	w.job(aJob("web", structs.JobService, count(4), spreadOver("${meta.rack}", 50, "r1", 100)))
	w.run("web")
	if got := w.perRack("web"); got["r1"] != 4 {
		t.Errorf("got %v", got)
	}
}

func TestPreferences_ChangeNoRunningTask(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": 2, "r2": 2})
	w.job(aJob("web", structs.JobService, count(3)))
	w.run("web")
	j := aJob("web", structs.JobService, count(3), prefersRack("r2", 100), spreadOver("${meta.rack}", 10))
	j.TaskGroups[0].Affinities = []*structs.Affinity{affinity("${node.class}", "=", "x", 5)}
	j.TaskGroups[0].Tasks[0].Affinities = []*structs.Affinity{affinity("${node.class}", "=", "x", 5)}
	w.job(j)
	p := w.run("web")
	if len(p.Update) != 3 || len(p.Place)+len(p.Stop) > 0 {
		t.Errorf("got %s, want three updates in place", describe(p))
	}
}

func TestServices_ChangeNoRunningTask(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.job(aJob("web", structs.JobService, count(3)))
	w.run("web")
	service := &structs.Service{Name: "web", Provider: structs.ServiceProviderBerth}
	for name, edit := range map[string]func(*structs.Job){
		"a service of the group": func(j *structs.Job) { j.TaskGroups[0].Services = []*structs.Service{service} },
		"a service of a task": func(j *structs.Job) {
			j.TaskGroups[0].Tasks[0].Services = []*structs.Service{service}
		},
	} {
		w.job(aJob("web", structs.JobService, count(3), edit))
		p := w.run("web")
		if len(p.Update) != 3 || len(p.Place)+len(p.Stop) > 0 {
			t.Errorf("%s: got %s, want three updates in place", name, describe(p))
		}
	}
}

func TestAlgorithm_ChoosesTheFullerOrTheEmptierNode(t *testing.T) {
	for algorithm, want := range map[string]string{
		"":                       "n1",
		cluster.AlgorithmBinpack: "n1",
		cluster.AlgorithmSpread:  "n2",
	} {
		w := newFixture(t)
		w.nodes("n1")
		w.job(aJob("first", structs.JobService))
		w.run("first")
		w.nodes("n2")
		if algorithm != "" {
			config := cluster.SchedulerConfiguration{SchedulerAlgorithm: algorithm}
			do(w, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
		}
		w.job(aJob("second", structs.JobService))
		p := w.run("second")
		w.wantPlaced("second", "0@"+want)
		score := p.Place[0].Metrics.ScoreMetaData[0]
		if s := score.Scores["binpack"]; s <= 0 || s > 1 {
			t.Errorf("algorithm %q: the score is %v", algorithm, s)
		}
	}
}

func TestAlgorithm_OfANodePoolPrecedesThatOfTheCluster(t *testing.T) {
	for pool, want := range map[string]string{
		cluster.AlgorithmSpread:  "n2",
		cluster.AlgorithmBinpack: "n1",
		"":                       "n2", // that of the cluster
	} {
		w := newFixture(t)
		do(w, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{
			Config: cluster.SchedulerConfiguration{SchedulerAlgorithm: cluster.AlgorithmSpread},
		})
		settings := &cluster.NodePoolSchedulerConfiguration{SchedulerAlgorithm: pool}
		do(w, state.NodePoolApply, &cluster.NodePoolApplyRequest{
			Pool: &cluster.NodePool{Name: "gpu", SchedulerConfiguration: settings},
		})
		inGPU := func(j *structs.Job) { j.NodePool = "gpu" }
		for i, id := range []string{"n1", "n2"} {
			n := aNode(id)
			n.NodePool = "gpu"
			w.node(n)
			if i == 0 {
				w.job(aJob("first", structs.JobService, inGPU))
				w.run("first")
			}
		}
		w.job(aJob("second", structs.JobService, inGPU))
		w.run("second")
		w.wantPlaced("second", "0@"+want)
	}
}

// TestProcess_RepeatsNoTrialThatHasChanged compares plans with those that try each node anew.
func TestProcess_RepeatsNoTrialThatHasChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFixture(t)
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			n := aNode(fmt.Sprint("n", i))
			n.NodeResources.CPU.CpuShares = int64(rapid.IntRange(200, 2000).Draw(t, "capacity"))
			w.node(n)
		}
		number := rapid.IntRange(1, 12)
		w.job(aJob("other", structs.JobService, count(number.Draw(t, "others")), cpu(90)))
		w.run("other")
		old := []func(*structs.Job){count(number.Draw(t, "before")), cpu(rapid.IntRange(10, 300).Draw(t, "cpu"))}
		if rapid.Bool().Draw(t, "before") {
			w.job(aJob("web", structs.JobService, old...))
			w.run("web")
		}
		edits := []func(*structs.Job){count(number.Draw(t, "count")), cpu(rapid.IntRange(10, 300).Draw(t, "new cpu")),
			groups(rapid.IntRange(1, 3).Draw(t, "groups"))}
		if rapid.Bool().Draw(t, "distinct") {
			edits = append(edits, inGroup(&structs.Constraint{Operand: structs.ConstraintDistinctHosts}))
		}
		if rapid.Bool().Draw(t, "limited") {
			edits = append(edits, constraints(distinctProperty("4")))
		}
		if rapid.Bool().Draw(t, "spread") {
			edits = append(edits, spreadOver("${node.unique.id}", 50))
		}
		w.job(aJob("web", structs.JobService, edits...))
		e := w.eval("web")
		placed := func(o options) (out []string) {
			p, err := process(w.s.Read(), e, w.clock, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range p.Place {
				metrics, err := json.Marshal(a.Metrics)
				out = append(out, fmt.Sprintf("%s@%s %s %v", a.Name, a.NodeID, metrics, err))
			}
			return append(out, fmt.Sprint(p.Eval.QueuedAllocations))
		}
		got := placed(options{enough: place.Enough})
		want := placed(options{enough: place.Enough, anew: true})
		if !slices.Equal(got, want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	})
}
