package scheduler

import (
	"fmt"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

func sticky(j *structs.Job) { j.TaskGroups[0].EphemeralDisk.Sticky = true }

// manyNodes returns a fixture with a running job on one of many nodes.
func manyNodes(t *testing.T, edits ...func(*structs.Job)) (*fixture, *structs.Allocation) {
	var nodes []string
	for i := range 40 {
		nodes = append(nodes, fmt.Sprintf("n%02d", i))
	}
	w := running(t, aJob("web", structs.JobService, edits...), nodes...)
	return w, w.allocs("web")[0]
}

func TestSticky_UpdateStaysOnItsNode(t *testing.T) {
	w, old := manyNodes(t, sticky)
	for i, id := range []string{"n00", "n39"} { // fuller nodes, which the scheduler prefers otherwise
		if id == old.NodeID {
			continue
		}
		w.job(aJob(fmt.Sprint("other", i), structs.JobService, cpu(700), constraints(&structs.Constraint{
			LTarget: "${node.unique.id}",
			RTarget: id,
			Operand: "=",
		})))
		w.run(fmt.Sprint("other", i))
	}
	w.job(aJob("web", structs.JobService, sticky, cpu(200)))
	p := w.run("web")
	if len(p.Place) != 1 || p.Place[0].NodeID != old.NodeID || p.Place[0].PreviousAllocation != old.ID {
		t.Fatalf("plan: %s, the last was on %s", describe(p), old.NodeID)
	}
	if m := p.Place[0].Metrics; m.NodesEvaluated != 1 || len(m.ScoreMetaData) != 1 {
		t.Errorf("metrics: %+v", m)
	}
}

func TestSticky_RescheduleStaysOnItsNode(t *testing.T) {
	for _, stays := range []bool{true, false} {
		edit := func(j *structs.Job) { j.TaskGroups[0].EphemeralDisk.Sticky = stays }
		w, old := manyNodes(t, edit)
		w.client(old, structs.AllocFailed)
		w.clock = w.clock.Add(time.Hour)
		p := w.run("web")
		if len(p.Place) != 1 || (p.Place[0].NodeID == old.NodeID) != stays {
			t.Errorf("sticky %v: plan %s, the last was on %s", stays, describe(p), old.NodeID)
		}
	}
}

func TestSticky_NodeThatIsNotFeasibleIsNoPreference(t *testing.T) {
	for name, edit := range map[string]func(w *fixture, old *structs.Allocation){
		"lost": func(w *fixture, old *structs.Allocation) { w.status(old.NodeID, structs.NodeDown) },
		"full": func(w *fixture, old *structs.Allocation) {
			w.job(aJob("other", structs.JobService, cpu(850), constraints(&structs.Constraint{
				LTarget: "${node.unique.id}",
				RTarget: old.NodeID,
				Operand: "=",
			})))
			w.run("other")
			w.job(aJob("web", structs.JobService, sticky, cpu(200)))
		},
		"excluded": func(w *fixture, old *structs.Allocation) {
			w.job(aJob("web", structs.JobService, sticky, constraints(&structs.Constraint{
				LTarget: "${node.unique.id}",
				RTarget: old.NodeID,
				Operand: "!=",
			})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, old := manyNodes(t, sticky)
			edit(w, old)
			p := w.run("web")
			if len(p.Place) != 1 || p.Place[0].NodeID == old.NodeID || p.Place[0].PreviousAllocation != old.ID {
				t.Errorf("plan: %s", describe(p))
			}
		})
	}
}

// An allocation that was stopped and found no place again has left its data to the next one of its name.
func TestSticky_DataIsTakenOverAlsoByALaterPlacement(t *testing.T) {
	w := running(t, aJob("web", structs.JobService, sticky), "n1")
	old := w.allocs("web")[0]
	do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       "n1",
		Eligibility:  structs.NodeIneligible,
		WriteOptions: w.now(),
	})
	do(w, state.AllocStop, &structs.AllocStopRequest{AllocID: old.ID, WriteOptions: w.now()})
	if p := w.run("web"); len(p.Stop) != 1 || len(p.Place) != 0 {
		t.Fatalf("without another node: %s", describe(p))
	}
	w.client(old, structs.AllocComplete)
	w.nodes("n2", "n3", "n4")
	p := w.run("web")
	if len(p.Place) != 1 || p.Place[0].PreviousAllocation != old.ID || p.Place[0].RescheduleTracker != nil {
		t.Fatalf("with other nodes: %s", describe(p))
	}
	next := w.allocs("web")[0]
	if state.Alloc(w.s.Read(), old.ID).NextAllocation != next.ID {
		t.Error("the earlier allocation does not name the later one")
	}
}

// The data of an allocation that was stopped with its job, or had failed before, is not taken over.
func TestSticky_AJobThatRunsAgainStartsEmpty(t *testing.T) {
	for _, failed := range []bool{false, true} {
		w := running(t, aJob("web", structs.JobService, sticky), "n1")
		old := w.allocs("web")[0]
		if failed {
			w.client(old, structs.AllocFailed)
		}
		do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: w.now()})
		w.run("web")
		w.client(old, structs.AllocComplete)
		w.job(aJob("web", structs.JobService, sticky))
		if p := w.run("web"); len(p.Place) != 1 || p.Place[0].PreviousAllocation != "" {
			t.Errorf("failed %v: %s", failed, describe(p))
		}
	}
}

// A displaced allocation leaves its data to the next one of its name, wherever that finds a place.
func TestSticky_DataOfADisplacedAllocationIsTakenOver(t *testing.T) {
	w := newFixture(t)
	w.preempting()
	w.nodes("n1")
	w.job(aJob("low", structs.JobService, sticky, priority(20), cpu(700)))
	w.run("low")
	old := w.allocs("low")[0]
	w.client(old, structs.AllocRunning)
	w.job(aJob("high", structs.JobService, priority(70), cpu(700)))
	w.run("high")
	w.client(old, structs.AllocComplete)
	w.nodes("n2")
	if p := w.run("low"); len(p.Place) != 1 || p.Place[0].PreviousAllocation != old.ID {
		t.Errorf("%s, after %q", describe(p), old.ID)
	}
}

// Of two allocations that stop for a larger version, one has no place for its successor. That one takes over
// the data, too, once it has a place.
func TestSticky_DataOfOneThatStoppedForAnotherIsTakenOver(t *testing.T) {
	x := &settling{newFixture(t)}
	x.nodes("n1")
	x.job(web(450, 2, 2, sticky))
	x.run("web")
	x.settle()
	x.register(web(600, 2, 2, sticky))
	x.settle()
	if live := x.allocs("web"); len(live) != 1 || live[0].JobVersion != 1 {
		t.Fatalf("%q runs on one node", x.placed("web"))
	}
	x.nodes("n2")
	x.settle()
	for _, a := range x.allocs("web") {
		if a.PreviousAllocation == "" || a.JobVersion != 1 {
			t.Errorf("%s replaces none", a.Name)
		}
	}
	x.wantPlaced("web", "0@n1 1@n2")
}
