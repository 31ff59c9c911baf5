package scheduler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"berth/scheduler/feasible"
	"berth/scheduler/place"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// fleet returns a cluster of n nodes with a plugin. An allocation on each uses its own volume and has not
// claimed it. Each node has its own topology. The checks after each entry are off.
func fleet(t testing.TB, n int) *fixture {
	t.Helper()
	return fleetWithin(t, n, 100)
}

// fleetWithin is a fleet with a limit of volumes per node.
func fleetWithin(t testing.TB, n int, limit int64) *fixture {
	t.Helper()
	w := newFixture(nil)
	b := w.s.Begin()
	fill := func(fn func(*state.WriteTx) error) {
		w.index++
		if err := b.Apply(w.index, fn); err != nil {
			t.Fatal(err)
		}
	}
	job := aJob("fill", structs.JobService, count(n), cpu(10), volume("data", structs.CSISingleNodeWriter, true))
	fill(func(tx *state.WriteTx) error {
		return state.JobRegister(tx, &structs.JobRegisterRequest{Job: job})
	})
	e := &structs.Evaluation{ID: "fill", Namespace: job.Namespace, JobID: job.ID, Status: structs.EvalComplete}
	plan := &structs.Plan{JobModifyIndex: w.index, Eval: e}
	for i := range n {
		id := nodeID(i)
		k := half("p", structs.CSIKindNode)
		k.NodeInfo.ID, k.NodeInfo.MaxVolumes = "i-"+id, limit
		k.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{
			"host": "i-" + id,
			"zone": fmt.Sprint("z", i%3),
		}}
		fill(func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{
				Node: aNode(id),
				CSI:  []*structs.CSIPluginInstance{k},
			})
		})
		plan.Place = append(plan.Place, &structs.Allocation{
			ID:        fmt.Sprintf("fill-%08d", i),
			JobID:     job.ID,
			TaskGroup: "g",
			NodeID:    id,
			Name:      structs.AllocName(job.ID, "g", i),
			Metrics:   &structs.AllocMetric{},
		})
	}
	var volumes []*structs.CSIVolume
	for i := range n {
		volumes = append(volumes, &structs.CSIVolume{
			ID: structs.PerAllocID("data", i), Namespace: job.Namespace,
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: fmt.Sprint("x", i)},
		})
	}
	volumes = append(volumes, &structs.CSIVolume{
		ID: "free", Namespace: job.Namespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "free"},
	},
		&structs.CSIVolume{
			ID: "local", Namespace: job.Namespace,
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "local"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{
				Topologies: []*structs.CSITopology{{Segments: map[string]string{"host": "i-" + nodeID(n/2)}}},
			},
		},
		&structs.CSIVolume{
			ID: "zonal", Namespace: job.Namespace,
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "zonal"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{
				Topologies: []*structs.CSITopology{{Segments: map[string]string{"zone": "z1"}}},
			},
		})
	fill(func(tx *state.WriteTx) error {
		return csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: volumes})
	})
	fill(func(tx *state.WriteTx) error {
		return state.PlanApply(tx, plan)
	})
	for _, j := range []*structs.Job{
		aJob("web", structs.JobService),
		aJob("db", structs.JobService, volume("free", structs.CSISingleNodeWriter, false)),
		aJob("local", structs.JobService, volume("local", structs.CSISingleNodeWriter, false)),
		aJob("zonal", structs.JobService, volume("zonal", structs.CSISingleNodeWriter, false)),
		aJob("one", structs.JobService, constraints(&structs.Constraint{
			LTarget: "${node.unique.id}",
			RTarget: nodeID(n / 2),
			Operand: "=",
		})),
		aJob("late", structs.JobService, volume("data", structs.CSISingleNodeWriter, true)),
		aJob("log", structs.JobSystem),
	} {
		fill(func(tx *state.WriteTx) error {
			return state.JobRegister(tx, &structs.JobRegisterRequest{Job: j})
		})
	}
	b.Commit()
	if got := len(slices.Collect(state.AllocsByJob(w.s.Read(), job.Namespace, job.ID))); got != n {
		t.Fatalf("%d allocations were placed: %s", got, state.Eval(w.s.Read(), "fill").StatusDescription)
	}
	return w
}

func nodeID(i int) string { return fmt.Sprintf("n%06d", i) }

// works are evaluations of a fleet that place one allocation, or find that there is no need to.
var works = []struct {
	name, job string
	perNode   bool
	most      int // nodes that are read
}{
	{"plain", "web", false, place.Enough + readBatch},
	{"volume", "db", false, place.Enough + readBatch},
	{"volume of one node", "local", false, 1},
	{"volume of a zone", "zonal", false, place.Enough + readBatch},
	{"a named node", "one", false, 1},
	{"one node of a job per node", "log", true, 1},
}

func evalOf(w *fixture, n int, job string, perNode bool) *structs.Evaluation {
	e := w.eval(job)
	if perNode {
		e.NodeID = nodeID(n / 2)
	}
	return e
}

// TestSample_DoesNotGrowWithTheFleet counts the nodes that are read and the allocations of memory for the
// placement of one allocation.
func TestSample_DoesNotGrowWithTheFleet(t *testing.T) {
	cost := map[string][]float64{}
	for _, n := range []int{300, 3000} {
		w := fleet(t, n)
		for _, c := range works {
			var p *structs.Plan
			cost[c.name] = append(cost[c.name], testing.AllocsPerRun(10, func() {
				p = w.plan(t, evalOf(w, n, c.job, c.perNode), place.Enough)
			}))
			if len(p.Place) != 1 || p.Blocked != nil {
				t.Fatalf("%s among %d: %s %s", c.name, n, describe(p), rejections(p, "g"))
			}
			if m := p.Place[0].Metrics; m.NodesEvaluated > c.most || m.NodesEvaluated == 0 {
				t.Errorf("%s among %d nodes: %d were evaluated", c.name, n, m.NodesEvaluated)
			}
		}
	}
	for name, c := range cost {
		t.Logf("%s: %.0f allocations of memory among 300 nodes, %.0f among 3000", name, c[0], c[1])
		if c[1] > 2*c[0]+200 {
			t.Errorf("%s: %.0f allocations of memory among 300 nodes, %.0f among 3000", name, c[0], c[1])
		}
	}
}

// TestBlockedEverywhere_LooksAtNoNode: the volume names its holder.
func TestBlockedEverywhere_LooksAtNoNode(t *testing.T) {
	w := fleet(t, 200)
	p := w.plan(t, w.eval("late"), place.Enough)
	if got := rejections(p, "g"); !strings.Contains(got, "allocation fill-000 (job fill) is placed to use it") ||
		p.Eval.FailedTGAllocs["g"].NodesEvaluated != 0 {
		t.Errorf("rejections: %s", got)
	}
}

// plan is process without the checks that read everything.
func (w *fixture) plan(t testing.TB, e *structs.Evaluation, enough int) *structs.Plan {
	t.Helper()
	p, err := process(w.s.Read(), e, w.clock, options{enough: enough})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFailure_CountsEveryNode: each node's rejection is counted, and one node that fits is found among many.
func TestFailure_CountsEveryNode(t *testing.T) {
	const n = 700
	w := fleet(t, n)
	w.t = t
	w.job(aJob("big", structs.JobService, cpu(995)))
	p := w.plan(t, w.eval("big"), place.Enough)
	if got := rejections(p, "g"); got != fmt.Sprintf("resources: cpu exhausted (%d)", n) {
		t.Errorf("rejections: %s", got)
	}
	if m := p.Eval.FailedTGAllocs["g"]; m.NodesEvaluated != n || m.NodesExhausted != n || m.NodesInPool != n {
		t.Errorf("metric: %+v", m)
	}
	large := aNode("n000555x")
	large.NodeResources.CPU.CpuShares = 5000
	w.node(large)
	w.job(aJob("big", structs.JobService, cpu(995), count(5)))
	w.apply(w.plan(t, w.eval("big"), place.Enough))
	w.wantPlaced("big", "0@n000555x 1@n000555x 2@n000555x 3@n000555x 4@n000555x")
}

// TestUnblockedEval_TriesFreedNodes, and not every node again. It keeps the reasons of the nodes that
// rejected it before.
func TestUnblockedEval_TriesFreedNodes(t *testing.T) {
	var cost []float64
	for _, n := range []int{1000, 8000} {
		w := fleet(t, n)
		w.write(t, func(tx *state.WriteTx) error {
			return state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("big", structs.JobService, cpu(995),
				count(2))})
		})
		w.carryOut(t, w.plan(t, w.eval("big"), place.Enough))
		waits := state.BlockedEval(w.s.Read(), structs.DefaultNamespace, "big")
		unblock := func(nodes ...*structs.Node) *structs.Evaluation {
			for _, node := range nodes {
				w.write(t, func(tx *state.WriteTx) error {
					return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: node})
				})
			}
			unblocked := state.Eval(w.s.Read(), waits.ID)
			if unblocked.Status != structs.EvalPending {
				t.Fatalf("evaluation is %s: %s", unblocked.Status, unblocked.StatusDescription)
			}
			return unblocked
		}
		small := aNode(nodeID(n) + "x")
		small.NodeResources.CPU.CpuShares = 10
		unblocked := unblock(small)
		var p *structs.Plan
		cost = append(cost, testing.AllocsPerRun(5, func() {
			p = w.plan(t, unblocked, place.Enough)
		}))
		if m := p.Eval.FailedTGAllocs["g"]; p.Eval.Status != structs.EvalBlocked ||
			p.Eval.QueuedAllocations["g"] != 2 ||
			m.NodesExhausted != n || m.CoalescedFailures != 1 ||
			rejections(p, "g") != fmt.Sprintf("resources: cpu exhausted (%d)", n) {
			t.Fatalf("%+v: %s", m, rejections(p, "g"))
		}
		w.carryOut(t, p)

		large := aNode(nodeID(n/3) + "x")
		p = w.plan(t, unblock(large), place.Enough)
		if len(p.Place) != 1 ||
			p.Place[0].NodeID != large.ID ||
			p.Eval.QueuedAllocations["g"] != 1 ||
			p.Place[0].Metrics.NodesEvaluated > 2*retriedNodes {
			t.Fatalf("%s, %+v", describe(p), p.Eval)
		}
		w.carryOut(t, p)

		var many []*structs.Node
		for i := range 40 {
			other := aNode(fmt.Sprint("m", i))
			other.NodeResources.CPU.CpuShares = 10
			many = append(many, other)
		}
		p = w.plan(t, unblock(many...), place.Enough) // more than is remembered
		if m := p.Eval.FailedTGAllocs["g"]; m.NodesEvaluated != n+42 {
			t.Errorf("%d nodes were tried", m.NodesEvaluated)
		}
	}
	t.Logf("%.0f and %.0f allocations of memory", cost[0], cost[1])
	if cost[1] > 2*cost[0]+200 {
		t.Errorf("%.0f allocations of memory among 1000 nodes, %.0f among 8000", cost[0], cost[1])
	}
}

// TestUnblockedEval_TakesOverSnapshotOfItsShape: a has tried 40 more nodes when b, an evaluation of the same
// shape, is unblocked. b takes over a's snapshot index, and so does not try these nodes.
func TestUnblockedEval_TakesOverSnapshotOfItsShape(t *testing.T) {
	const n = 600
	w := fleet(t, n)
	for _, id := range []string{"a", "b"} {
		w.write(t, func(tx *state.WriteTx) error {
			return state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob(id, structs.JobService, cpu(995))})
		})
		w.carryOut(t, w.plan(t, w.eval(id), place.Enough))
	}
	register := func(id string, mhz int64) {
		node := aNode(id)
		node.NodeResources.CPU.CpuShares = mhz
		w.write(t, func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: node})
		})
	}
	first, next := state.BlockedEval(w.s.Read(), "default", "a"), state.BlockedEval(w.s.Read(), "default", "b")
	for i := range 40 {
		register(fmt.Sprint("small", i), 10)
		w.carryOut(t, w.plan(t, state.Eval(w.s.Read(), first.ID), place.Enough))
	}
	register("large", 1000)
	seen := state.Eval(w.s.Read(), first.ID).SnapshotIndex
	w.carryOut(t, w.plan(t, state.Eval(w.s.Read(), first.ID), place.Enough))
	w.t = t
	w.wantPlaced("a", "0@large")
	now := state.Eval(w.s.Read(), next.ID)
	if now.Status != structs.EvalPending || now.SnapshotIndex != seen || next.SnapshotIndex >= seen {
		t.Fatalf("next evaluation is %s of snapshot %d, before %d; want pending of snapshot %d", now.Status,
			now.SnapshotIndex, next.SnapshotIndex, seen)
	}
	p := w.plan(t, now, place.Enough)
	if m := p.Eval.FailedTGAllocs["g"]; m == nil || m.NodesEvaluated != n { // its own result
		t.Errorf("%+v", m)
	}
	w.carryOut(t, p)
	register("larger", 1000)
	w.carryOut(t, w.plan(t, state.Eval(w.s.Read(), next.ID), place.Enough))
	w.wantPlaced("b", "0@larger")
}

// TestUnblockKeys_AreBounded: an evaluation with too many unblock keys retries after a while.
func TestUnblockKeys_AreBounded(t *testing.T) {
	const n = feasible.MaxKeys + 100
	w := fleetWithin(t, n, 1)
	p := w.plan(t, w.eval("db"), place.Enough)
	if got := rejections(p,
		"g"); got != fmt.Sprintf("csi-limit: CSI plugin p has its limit of 1 volumes on this node (%d)", n) {
		t.Fatalf("rejections: %s", got)
	}
	if got := len(blockedOn(p)); got < feasible.MaxKeys/2 || got > feasible.MaxKeys+2 {
		t.Errorf("evaluation waits for %d keys", got)
	}
	if len(p.Followups) != 1 ||
		p.Followups[0].WaitUntil != w.clock.Add(retryDelay).UnixNano() ||
		p.Followups[0].JobID != "db" {
		t.Fatalf("%s", describe(p))
	}
	w.carryOut(t, p)
	p = w.plan(t, w.eval("db"), place.Enough)
	if len(p.Followups) != 0 {
		t.Errorf("a second follow-up was made: %s", describe(p))
	}
	later := slices.Collect(state.LaterEvalsByJob(w.s.Read(), "default", "db"))
	p = w.plan(t, later[0], place.Enough)
	if len(p.Followups) != 1 {
		t.Errorf("no follow-up when it is due: %s", describe(p))
	}
}

func (w *fixture) carryOut(t testing.TB, p *structs.Plan) {
	t.Helper()
	w.write(t, func(tx *state.WriteTx) error {
		return state.PlanApply(tx, p)
	})
}

// TestSample_PacksNearlyAsWellAsAScan fills a fleet with allocations of different sizes, one evaluation each,
// by samples and by asking every node.
func TestSample_PacksNearlyAsWellAsAScan(t *testing.T) {
	const n, jobs = 250, 450
	filled := func(enough int) (nodes int) {
		w, chance := fleet(t, n), rand.New(rand.NewPCG(7, 7))
		for i := range jobs {
			id := fmt.Sprint("job-", i)
			e := &structs.Evaluation{
				ID:        structs.DeriveID(uint64(i), "eval"),
				Namespace: structs.DefaultNamespace,
				JobID:     id,
				Status:    structs.EvalPending,
			}
			w.write(t, func(tx *state.WriteTx) error {
				return state.JobRegister(tx,
					&structs.JobRegisterRequest{Job: aJob(id, structs.JobBatch, cpu(50+chance.IntN(350)))})
			})
			p := w.plan(t, e, enough)
			if len(p.Place) != 1 {
				t.Fatalf("%s: %s", id, rejections(p, "g"))
			}
			w.write(t, func(tx *state.WriteTx) error {
				return state.PlanApply(tx, p)
			})
		}
		tx := w.s.Read()
		for i := range n {
			if len(slices.Collect(state.LiveAllocsByNode(tx, nodeID(i)))) > 1 {
				nodes++
			}
		}
		return nodes
	}
	scan, sample := filled(math.MaxInt), filled(place.Enough)
	t.Logf("%d nodes by scans, %d by samples", scan, sample)
	if sample > scan*115/100 {
		t.Errorf("%d nodes by scans, %d by samples", scan, sample)
	}
}

func (w *fixture) write(t testing.TB, fn func(*state.WriteTx) error) {
	t.Helper()
	w.index++
	if err := w.s.Write(w.index, fn); err != nil {
		t.Fatal(err)
	}
}

// TestSample_SpreadsAGroup: each of its allocations gets its own node while there are enough.
func TestSample_SpreadsAGroup(t *testing.T) {
	w := fleet(t, 400)
	w.t = t
	w.job(aJob("wide", structs.JobService, count(300)))
	p := w.plan(t, w.eval("wide"), place.Enough)
	nodes := map[string]bool{}
	for _, a := range p.Place {
		nodes[a.NodeID] = true
	}
	if len(p.Place) != 300 || len(nodes) < 250 {
		t.Errorf("%d allocations on %d nodes", len(p.Place), len(nodes))
	}
}

// TestUpdate_MayStayOnItsNode although everything else is full and far.
func TestUpdate_MayStayOnItsNode(t *testing.T) {
	w := fleet(t, 300)
	w.t = t
	w.job(aJob("big", structs.JobService, count(300), cpu(900)))
	w.apply(w.plan(t, w.eval("big"), place.Enough))
	w.job(aJob("big", structs.JobService, count(300), cpu(950), atOnce))
	p := w.plan(t, w.eval("big"), place.Enough)
	if len(p.Place) != 300 || len(p.Stop) != 300 {
		t.Fatalf("%d placed, %d stopped: %s", len(p.Place), len(p.Stop), rejections(p, "g"))
	}
	for _, a := range p.Place {
		if prev := state.Alloc(w.s.Read(), a.PreviousAllocation); prev.NodeID != a.NodeID {
			t.Fatalf("%s moved from %s to %s", a.Name, prev.NodeID, a.NodeID)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000, 100_000} {
		var w *fixture
		for _, c := range works {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				if w == nil {
					w = fleet(b, n)
				}
				b.ReportAllocs()
				b.ResetTimer()
				looked := 0
				for b.Loop() {
					p := w.plan(b, evalOf(w, n, c.job, c.perNode), place.Enough)
					looked = p.Place[0].Metrics.NodesEvaluated
				}
				b.ReportMetric(float64(looked), "nodes/op")
			})
		}
	}
}
