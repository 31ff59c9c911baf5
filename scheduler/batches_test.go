package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

// inBatches makes an update replace some allocations at a time.
func inBatches(most int, stagger time.Duration) func(*structs.Job) {
	return func(j *structs.Job) {
		j.Update = &structs.UpdateStrategy{MaxParallel: most, Stagger: stagger}
	}
}

// onNewest counts the live allocations of a job that have its newest version.
func (w *fixture) onNewest(job string) (n int) {
	version := state.Job(w.s.Read(), "default", job).Version
	for _, a := range w.allocs(job) {
		if a.JobVersion == version {
			n++
		}
	}
	return n
}

// nextBatches returns the evaluations that continue updates, by their time.
func (w *fixture) nextBatches() (evals []*structs.Evaluation) {
	for e := range state.LaterEvals(w.s.Read()) {
		if e.TriggeredBy == structs.TriggerRollingUpdate {
			evals = append(evals, e)
		}
	}
	return evals
}

// updated returns a fixture with a system job on n1 to n5 whose first batch of two is done.
func updated(t *testing.T) *fixture {
	w := running(t, aJob("log", structs.JobSystem, inBatches(2, time.Minute)), "n1", "n2", "n3", "n4", "n5")
	w.clock = w.clock.Add(time.Hour)
	w.job(aJob("log", structs.JobSystem, inBatches(2, time.Minute), cpu(200)))
	w.run("log")
	return w
}

func (w *fixture) wantNewest(job string, want int) {
	w.t.Helper()
	if got := w.onNewest(job); got != want {
		w.t.Fatalf("%d allocations of job %s have the newest version, want %d", got, job, want)
	}
}

func TestSystemUpdate_ReplacesInBatches(t *testing.T) {
	w := updated(t)
	batch := 0
	for _, done := range []int{2, 4, 5} {
		w.wantNewest("log", done)
		w.wantPlaced("log", "0@n1 0@n2 0@n3 0@n4 0@n5")
		batch++
		batches := w.nextBatches()
		if done == 5 {
			if len(batches) > 0 {
				t.Errorf("%d evaluations follow the last batch", len(batches))
			}
			break
		}
		due := w.clock.Add(time.Minute).UnixNano()
		if len(batches) != 1 || batches[0].WaitUntil != due || batches[0].NodeID != "" {
			t.Fatalf("after batch %d: %+v", batch, batches)
		}
		if prev := state.Eval(w.s.Read(), batches[0].PreviousEval); prev == nil || prev.NextEval != batches[0].ID {
			t.Errorf("after batch %d: %+v follows %+v", batch, batches[0], prev)
		}
		w.clock = w.clock.Add(time.Minute - time.Second)
		if p := w.run("log"); len(p.Stop) > 0 || p.Eval.NextEval != batches[0].ID {
			t.Fatalf("before the time of the next batch: %s", describe(p))
		}
		w.clock = w.clock.Add(time.Second)
		w.apply(w.process(batches[0]))
	}
}

// A step of the cluster time is no time that has passed: the next batch does not follow at once.
func TestSystemUpdate_CountsNoStepOfTheClusterTime(t *testing.T) {
	w := updated(t)
	w.stepClock(w.clock.Add(-time.Second), 10*time.Hour)
	w.apply(w.process(w.nextBatches()[0]))
	w.wantNewest("log", 2)
	due := w.clock.Add(time.Minute)
	if next := w.nextBatches(); len(next) != 1 || next[0].WaitUntil != due.UnixNano() {
		t.Fatalf("the next batch is %+v, want one at %d", next, due.UnixNano())
	}
	w.clock = due
	w.apply(w.process(w.nextBatches()[0]))
	w.wantNewest("log", 4)
}

func TestSystemUpdate_GoesOnAfterTheClusterTimeWasSetBack(t *testing.T) {
	w := updated(t)
	w.stepClock(w.clock, -10*time.Hour)
	next := w.nextBatches()[0]
	w.clock = time.Unix(0, next.WaitUntil)
	w.apply(w.process(next))
	w.wantNewest("log", 4)
}

func TestSystemUpdate_WithoutAPaceReplacesAll(t *testing.T) {
	none := func(*structs.Job) {}
	for name, pace := range map[string]func(*structs.Job){
		"no update":      none,
		"max_parallel 0": inBatches(0, time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t, aJob("log", structs.JobSystem, pace), "n1", "n2", "n3")
			w.job(aJob("log", structs.JobSystem, pace, cpu(200)))
			w.run("log")
			w.wantNewest("log", 3)
		})
	}
}

// Changes of nodes and requests of operators during an update do not speed it up, and an update that only
// such a change finds begins in time.
func TestSystemUpdate_KeepsItsPaceWhenNodesChange(t *testing.T) {
	w := updated(t)
	w.clock = w.clock.Add(10 * time.Second)
	for _, node := range []string{"n3", "n4", "n5"} {
		p := w.runNode("log", node)
		if len(p.Stop)+len(p.Followups) > 0 {
			t.Fatalf("an evaluation of node %s: %s", node, describe(p))
		}
	}
	w.status("n5", structs.NodeDown)
	w.runNode("log", "n5")
	w.wantNewest("log", 2)

	// One that an operator stops has the new version and is one of the next batch, although it comes early.
	a := w.allocs("log")[2]
	do(w, state.AllocStop, &structs.AllocStopRequest{AllocID: a.ID, WriteOptions: w.now()})
	w.run("log")
	w.wantNewest("log", 3)
	w.clock = w.clock.Add(50 * time.Second)
	w.apply(w.process(w.nextBatches()[0]))
	w.wantNewest("log", 4)
	w.status("n5", structs.NodeReady)
	w.runNode("log", "n5")
	w.wantNewest("log", 5) // n5 has no allocation that would be replaced
}

// The plan of one node leaves an update to an evaluation of all nodes, because the plans of two nodes may be
// made at once.
func TestSystemUpdate_OfOneNodeIsLeftToAWave(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem, inBatches(1, time.Minute)), "n1", "n2")
	for _, id := range []string{"n1", "n2"} {
		w.eligibility(id, structs.NodeIneligible)
	}
	w.job(aJob("log", structs.JobSystem, inBatches(1, time.Minute), cpu(200)))
	w.run("log")
	w.wantNewest("log", 0)
	if batches := w.nextBatches(); len(batches) > 0 {
		t.Fatalf("%d batches follow although no node takes part", len(batches))
	}
	w.clock = w.clock.Add(time.Hour)
	w.eligibility("n1", structs.NodeEligible)
	w.eligibility("n2", structs.NodeEligible)
	w.runNode("log", "n1")
	w.runNode("log", "n2")
	w.wantNewest("log", 0)
	batches := w.nextBatches()
	if len(batches) != 1 || batches[0].WaitUntil != w.clock.UnixNano() {
		t.Fatalf("the evaluations that follow: %+v", batches)
	}
	w.apply(w.process(batches[0]))
	w.wantNewest("log", 1)
}

// runNode evaluates a job on one node.
func (w *fixture) runNode(job, node string) *structs.Plan {
	w.t.Helper()
	e := w.eval(job)
	e.NodeID = node
	p := w.process(e)
	w.apply(p)
	return p
}

func (w *fixture) eligibility(node, value string) {
	w.t.Helper()
	do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       node,
		Eligibility:  value,
		WriteOptions: w.now(),
	})
}

// Each group has its own pace, also a group with its own block.
func TestSystemUpdate_OfTwoGroups(t *testing.T) {
	version := func(mhz int) *structs.Job {
		return aJob("log", structs.JobSystem, inBatches(1, time.Minute), cpu(mhz), func(j *structs.Job) {
			other := *j.TaskGroups[0]
			other.Name = "h"
			u := structs.DefaultUpdateStrategy()
			u.MaxParallel = 2
			u.Stagger = 20 * time.Second
			other.Update = &u
			j.TaskGroups = append(j.TaskGroups, &other)
		})
	}
	w := running(t, version(100), "n1", "n2", "n3")
	w.job(version(150))
	w.run("log")
	groups := func() string {
		count := map[string]int{}
		for _, a := range w.allocs("log") {
			if a.JobVersion == 1 {
				count[a.TaskGroup]++
			}
		}
		return fmt.Sprintf("g %d, h %d", count["g"], count["h"])
	}
	for _, step := range []struct {
		seconds int
		want    string
	}{{0, "g 1, h 2"}, {20, "g 1, h 3"}, {40, "g 2, h 3"}, {60, "g 3, h 3"}} {
		w.clock = w.clock.Add(time.Duration(step.seconds) * time.Second)
		w.runBatches()
		if got := groups(); got != step.want {
			t.Fatalf("after %d seconds more: %s, want %s", step.seconds, got, step.want)
		}
	}
}

// What nobody misses does not wait: a node whose allocation has failed, and one without an allocation. A
// newer version does not wait for the pace of the one before.
func TestSystemUpdate_WaitsForNothingElse(t *testing.T) {
	w := updated(t)
	w.client(w.allocs("log")[4], structs.AllocFailed)
	w.nodes("n6")
	w.run("log")
	w.wantNewest("log", 4)
	w.job(aJob("log", structs.JobSystem, inBatches(2, time.Second), cpu(300)))
	w.run("log")
	w.wantNewest("log", 2)
	w.clock = w.clock.Add(time.Second) // the batch of the older version comes later
	w.runBatches()
	w.wantNewest("log", 4)
}

// runBatches processes the evaluations of updates that are due.
func (w *fixture) runBatches() {
	w.t.Helper()
	for _, e := range w.nextBatches() {
		if e.WaitUntil <= w.clock.UnixNano() {
			w.apply(w.process(e))
		}
	}
}

// A replacement gives way to the next one a stagger after it, also if the batch was not full at first. One
// that took the place of a failed allocation of the same version does not count.
func TestSystemUpdate_CountsEachReplacement(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem, inBatches(2, time.Minute)), "n1", "n2", "n3", "n4")
	for _, id := range []string{"n2", "n3", "n4"} {
		w.eligibility(id, structs.NodeIneligible)
	}
	w.clock = w.clock.Add(time.Hour)
	w.job(aJob("log", structs.JobSystem, inBatches(2, time.Minute), cpu(200)))
	w.run("log")
	w.wantNewest("log", 1)
	w.client(w.allocs("log")[0], structs.AllocFailed)
	w.run("log")
	w.clock = w.clock.Add(30 * time.Second)
	w.run("log") // replaces the failed one
	for _, id := range []string{"n2", "n3", "n4"} {
		w.eligibility(id, structs.NodeEligible)
	}
	w.run("log")
	w.wantNewest("log", 2)
	for _, want := range []int{3, 4} {
		w.clock = w.clock.Add(30 * time.Second)
		w.runBatches()
		w.wantNewest("log", want)
	}
}

// A node that has no capacity for the new version keeps the old one, and does not hold up the others.
func TestSystemUpdate_PassesNodesWithoutCapacity(t *testing.T) {
	w := newFixture(t)
	for i := range 20 {
		n := aNode(fmt.Sprintf("n%02d", i))
		n.NodeResources.CPU.CpuShares = 150
		w.node(n)
	}
	w.nodes("big1", "big2", "z1", "z2")
	w.job(aJob("log", structs.JobSystem, inBatches(3, time.Minute)))
	w.run("log")
	w.job(aJob("log", structs.JobSystem, inBatches(3, time.Minute), cpu(200)))
	p := w.run("log")
	w.wantNewest("log", 3)
	if got := rejections(p, "g"); got != "resources: cpu exhausted (20)" {
		t.Errorf("rejections: %s", got)
	}
	w.clock = w.clock.Add(time.Minute)
	w.apply(w.process(w.nextBatches()[0]))
	w.wantNewest("log", 4)
	if batches := w.nextBatches(); len(batches) > 0 || len(w.allocs("log")) != 24 {
		t.Errorf("%d batches follow, %d allocations are left", len(batches), len(w.allocs("log")))
	}
}

// An allocation with a volume stops before its successor starts: one plan stops it and names it. If the new
// version uses the volume in a mode that excludes the old one, none can start beside the others: all are
// replaced at once if max_parallel admits it, and none if it does not.
func TestSystemUpdate_OfVolumes(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2", "n3")
	w.volume("share", "hostpath")
	reader := volume("share", structs.CSIMultiNodeReader, false)
	w.job(aJob("log", structs.JobSystem, inBatches(1, time.Minute), reader))
	w.run("log")
	for _, a := range w.allocs("log") {
		w.claim(a)
		w.client(a, structs.AllocRunning)
	}
	w.job(aJob("log", structs.JobSystem, inBatches(1, time.Minute), reader, cpu(200)))
	p := w.run("log")
	if len(p.Stop) != 1 || len(p.Place) != 1 || p.Place[0].PreviousAllocation != p.Stop[0].AllocID ||
		!slices.Contains(slices.Collect(p.Place[0].Awaits()), p.Stop[0].AllocID) {
		t.Fatalf("the first batch: %s", describe(p))
	}
	w.clock = w.clock.Add(time.Second)
	writer := volume("share", structs.CSIMultiNodeMultipleWriter, false)
	for _, most := range []int{2, 3} {
		w.clock = w.clock.Add(2 * time.Minute)
		w.job(aJob("log", structs.JobSystem, inBatches(most, time.Minute), writer))
		w.run("log")
		w.wantNewest("log", most/3*3)
	}
}

// A plan of a user counts the allocations of all batches.
func TestDryRun_CountsAllBatches(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem, inBatches(2, time.Minute)), "n1", "n2", "n3")
	w.job(aJob("log", structs.JobSystem, inBatches(2, time.Minute), cpu(200)))
	p, err := DryRun(w.s.Read(), w.eval("log"), w.clock)
	if err != nil {
		t.Fatal(err)
	}
	if u := p.Desired["g"]; u.DestructiveUpdate != 3 || u.Ignore != 0 || len(p.Followups) != 1 {
		t.Errorf("desired %+v, follow-ups %s", u, strings.TrimSpace(describe(p.Plan)))
	}
}
