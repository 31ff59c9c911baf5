package scheduler

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/scheduler/feasible"
	"berth/scheduler/place"
	"berth/state"
	"berth/structs"
)

// largeNode is a node with capacity for any number of the smallest allocations.
func largeNode(id string) *structs.Node {
	n := aNode(id)
	n.NodeResources = &structs.NodeResources{
		CPU:    structs.NodeCPUResources{CpuShares: structs.MaxCPU},
		Memory: structs.NodeMemoryResources{MemoryMB: structs.MaxMemoryMB},
		Disk:   structs.NodeDiskResources{DiskMB: structs.MaxDiskMB},
	}
	return n
}

// bounded runs a plan and fails when it takes memory by the instance.
func bounded(t *testing.T, w *fixture, e *structs.Evaluation) *structs.Plan {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := w.process(e)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 128<<20 {
		t.Errorf("a plan of %d allocations takes %d MiB", len(p.Place), got>>20)
	}
	return p
}

func TestCount_OfWhichNothingFitsCostsNoMemory(t *testing.T) {
	for _, n := range []int{structs.MaxGroupCount, 2_000_000_000, math.MaxInt} {
		w := newFixture(t)
		w.nodes("a", "b")
		w.job(aJob("j", structs.JobService, count(n), cpu(5000)))
		p := bounded(t, w, w.eval("j"))
		if p.Blocked == nil || p.Eval.Status != structs.EvalComplete ||
			p.Eval.QueuedAllocations["g"] != n ||
			p.Eval.FailedTGAllocs["g"].CoalescedFailures != n-1 {
			t.Errorf("%d: %+v", n, p.Eval)
		}
		w.apply(p)
	}
}

func TestCount_BeyondTheLimitIsPlacedInPlansOfBoundedSize(t *testing.T) {
	w := newFixture(t)
	w.node(largeNode("a"))
	w.job(aJob("j", structs.JobService, count(2_000_000_000), cpu(1)))
	e := w.eval("j")
	for round := 1; round <= 2; round++ {
		p := bounded(t, w, e)
		if len(p.Place) != structs.MaxPlaced || p.Blocked != nil ||
			p.Eval.Status != structs.EvalPending ||
			p.Eval.Again != structs.EvalMore {
			t.Fatalf("%d allocations, blocked %v, %s %q", len(p.Place), p.Blocked, p.Eval.Status,
				p.Eval.StatusDescription)
		}
		w.apply(p)
		if got := len(w.allocs("j")); got != round*structs.MaxPlaced {
			t.Fatalf("%d allocations after %d plans", got, round)
		}
		e = state.Eval(w.s.Read(), p.Eval.ID)
	}
}

func TestCount_AboveOnePlanIsPlacedWhole(t *testing.T) {
	w := newFixture(t)
	w.node(largeNode("a"))
	const n = 2*structs.MaxPlaced + 10
	w.job(aJob("j", structs.JobService, count(n), cpu(1)))
	e, plans := w.eval("j"), 0
	for ; e.Status == structs.EvalPending && plans < 10; plans++ {
		w.apply(w.process(e))
		e = state.Eval(w.s.Read(), e.ID)
	}
	allocs := w.allocs("j")
	indexes := map[int]bool{}
	for _, a := range allocs {
		indexes[a.Index()] = true
	}
	if e.Status != structs.EvalComplete || plans != 3 ||
		len(allocs) != n || len(indexes) != n {
		t.Errorf("%s after %d plans: %d allocations, %d indexes", e.Status, plans, len(allocs), len(indexes))
	}
}

func TestCount_OfManyVolumesNamesFewOfThem(t *testing.T) {
	w := newFixture(t)
	w.nodes("a")
	w.job(aJob("j", structs.JobService, count(2_000_000_000), volume("v", structs.CSISingleNodeWriter, true)))
	p := bounded(t, w, w.eval("j"))
	if p.Blocked == nil || len(p.Blocked.BlockedOn) > feasible.MaxKeys+8 ||
		len(p.Followups) != 1 {
		t.Fatalf("%d keys, %d follow-ups", len(p.Blocked.BlockedOn), len(p.Followups))
	}
	if !slices.Contains(p.Blocked.BlockedOn, structs.WakeCapacity) {
		t.Error("evaluation does not wait for capacity")
	}
	if due := time.Unix(0, p.Followups[0].WaitUntil).Sub(w.clock); due != retryDelay {
		t.Errorf("next attempt is after %s", due)
	}
}

func TestDrain_OfManyMovesThemInPlansOfBoundedSize(t *testing.T) {
	w := newFixture(t)
	w.node(largeNode("a"))
	const n = structs.MaxPlaced + 100
	w.job(aJob("j", structs.JobService, count(n), cpu(1)))
	e := w.eval("j")
	for range 2 {
		w.apply(w.process(e))
		e = state.Eval(w.s.Read(), e.ID)
	}
	w.node(largeNode("b"))
	w.status("a", structs.NodeDown)
	e = w.eval("j")
	for round := range 2 {
		p := w.process(e)
		if len(p.Stop) > structs.MaxPlaced || len(p.Place) > 2*structs.MaxPlaced ||
			(p.Eval.Status == structs.EvalPending) != (round == 0) {
			t.Fatalf("round %d: %d stops, %d placed, %s", round, len(p.Stop), len(p.Place), p.Eval.Status)
		}
		for _, a := range p.Place {
			if a.PreviousAllocation == "" {
				t.Fatal("moved allocation does not name its predecessor")
			}
		}
		w.apply(p)
		e = state.Eval(w.s.Read(), e.ID)
	}
	if got := len(w.allocs("j")); got != n {
		t.Errorf("%d allocations", got)
	}
}

// A job with many groups in a large fleet must not take memory for each instance before anything fits.
func TestSystemJob_HasOneFreshPlacementForAllNodesOfAGroup(t *testing.T) {
	w := newFixture(t)
	w.nodes("a", "b", "c")
	w.job(aJob("j", structs.JobSystem))
	p, err := newPlanner(w.s.Read(), w.eval("j"), w.clock, options{enough: place.Enough})
	if err != nil {
		t.Fatal(err)
	}
	p.reconcilePerNode()
	if len(p.placements) != 1 || p.placements[0].Size() != 3 {
		t.Errorf("%d placements, the first for %d nodes", len(p.placements), p.placements[0].Size())
	}
}

func TestSystemJob_OfALargeFleetIsPlacedInPlansOfBoundedSize(t *testing.T) {
	w := newFixture(t)
	const n = structs.MaxPlaced + 50
	for i := range n {
		w.index++
		node := aNode(structs.DeriveID(uint64(i)))
		if err := w.s.Write(w.index, func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: node, WriteOptions: w.now()})
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.job(aJob("j", structs.JobSystem))
	p := w.process(w.eval("j"))
	if len(p.Rest) != 1 {
		t.Fatalf("a plan has %d further parts, want 1", len(p.Rest))
	}
	for i, part := range []*structs.Plan{p, p.Rest[0]} {
		if len(part.Place) > structs.MaxPlaced ||
			(part.Eval.Status == structs.EvalPending) != (i == 0) {
			t.Fatalf("part %d: %d placed, %s", i, len(part.Place), part.Eval.Status)
		}
		if i > 0 {
			part.Eval.ModifyIndex = state.Eval(w.s.Read(), p.Eval.ID).ModifyIndex
		}
		w.apply(part)
	}
	if e := state.Eval(w.s.Read(), p.Eval.ID); e.Status != structs.EvalComplete {
		t.Errorf("the evaluation is %s", e.Status)
	}
	if got := len(w.allocs("j")); got != n {
		t.Errorf("%d allocations", got)
	}
}

// The IDs of a few allocations that follow each other in a plan have a common beginning, which others do not
// have but by chance. No plan has one ID twice.
func TestAllocIDs_OfNeighboursBeginAlike(t *testing.T) {
	const n = 4*nearIDs + 1
	w := newFixture(t)
	w.node(largeNode("a"))
	w.job(aJob("j", structs.JobService, count(n), cpu(1)))
	p := w.process(w.eval("j"))
	ids := map[string]bool{}
	begins := map[string]bool{}
	for near := range slices.Chunk(p.Place, nearIDs) {
		begin := near[0].ID[:nearDigits]
		begins[begin] = true
		for _, a := range near {
			ids[a.ID] = true
			if !strings.HasPrefix(a.ID, begin) {
				t.Errorf("ID %s does not begin with %s", a.ID, begin)
			}
		}
	}
	if len(p.Place) != n || len(ids) != n {
		t.Errorf("%d allocations have %d IDs, want %d", len(p.Place), len(ids), n)
	}
	if len(begins) < 3 {
		t.Errorf("the IDs of a plan with %d allocations have only %d beginnings", n, len(begins))
	}
}
