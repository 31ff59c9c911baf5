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

// Jobs that exchange their ports stop the allocation of one first. Its successor, of a later plan, takes over
// its data, too.
func TestSticky_DataIsTakenOverInAnExchange(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.node(withPorts("n1", 1))
	for version, ports := range [][2]int{{80, 81}, {81, 80}} {
		d.job(aJob("a", structs.JobService, sticky, port("http", ports[0])))
		d.job(aJob("b", structs.JobService, sticky, port("http", ports[1])))
		for range 4 {
			d.clock = d.clock.Add(time.Minute)
			for _, id := range []string{"a", "b"} {
				d.apply(d.process(d.eval(id)))
				for a := range state.AllocsByJob(d.s.Read(), "default", id) {
					if a.ServerTerminal() && !a.ClientTerminal() {
						d.client(a, structs.AllocComplete)
					}
				}
			}
		}
		for _, id := range []string{"a", "b"} {
			live := d.allocs(id)
			if len(live) != 1 || live[0].JobVersion != uint64(version) ||
				(live[0].PreviousAllocation == "") != (version == 0) {
				t.Errorf("version %d of %s: %q", version, id, d.placed(id))
			}
		}
	}
}

// Data goes to the next allocation of a name only: what came after that may have stopped for good.
func TestSticky_DataOfAFormerAllocationIsNotTakenOver(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.nodes("n1")
	version := func(n, canaries int) {
		d.job(aJob("web", structs.JobService, sticky, count(n), cpu(100+canaries), withCanaries(canaries)))
		d.plan()
		for _, a := range d.allocs("web") {
			d.health(a, true, structs.AllocRunning)
		}
	}
	version(1, 0)
	version(1, 1)
	if err := d.operateOn(state.LatestDeployment(d.s.Read(), "default", "web").ID, "promote"); err != nil {
		t.Fatal(err)
	}
	d.plan()
	version(0, 1)
	version(1, 1)
	if live := d.allocs("web"); len(live) != 1 || live[0].PreviousAllocation != "" {
		t.Errorf("%+v", live)
	}
}

// An allocation of a system job comes back to its node, and to its data there, after others were in its place
// and after the node was away.
func TestSticky_DataOfASystemJobStaysOnItsNode(t *testing.T) {
	on := func(id string) func(*structs.Job) {
		return constraints(&structs.Constraint{LTarget: "${node.unique.id}", RTarget: id, Operand: "="})
	}
	displace := func(w *fixture, old *structs.Allocation) {
		w.job(aJob("high", structs.JobService, priority(70), cpu(700), on("n1")))
		w.run("high")
		w.client(old, structs.AllocComplete)
		high := w.allocs("high")[0]
		w.job(aJob("high", structs.JobService, priority(70), cpu(100), on("n1")))
		w.run("high")
		w.client(high, structs.AllocComplete)
	}
	lose := func(w *fixture, old *structs.Allocation) {
		w.status("n1", structs.NodeDown)
		w.run("low")
		w.status("n1", structs.NodeReady)
		w.client(old, structs.AllocComplete)
	}
	drain := func(w *fixture, old *structs.Allocation) {
		for _, spec := range []*structs.DrainSpec{{Deadline: time.Hour}, nil} {
			do(w, state.NodeDrain, &structs.NodeDrainRequest{
				NodeID:       "n1",
				DrainSpec:    spec,
				MarkEligible: spec == nil,
				WriteOptions: w.now(),
			})
			if spec != nil {
				do(w, state.AllocsMigrate, &structs.AllocsMigrateRequest{
					AllocIDs:     []string{old.ID},
					WriteOptions: w.now(),
				})
				w.run("low")
				w.client(old, structs.AllocComplete)
			}
		}
	}
	for name, c := range map[string]struct {
		away func(w *fixture, old *structs.Allocation)
		job  func(*structs.Job)
		kept bool
	}{
		"displaced": {displace, sticky, true},
		"lost":      {lose, sticky, true},
		"drained":   {drain, sticky, true},
		"without":   {lose, func(*structs.Job) {}, false},
	} {
		w := newFixture(t)
		w.preempting()
		w.nodes("n0", "n1")
		w.job(aJob("low", structs.JobSystem, c.job, priority(20), cpu(700)))
		w.run("low")
		var old *structs.Allocation
		for _, a := range w.allocs("low") {
			w.client(a, structs.AllocRunning)
			if a.NodeID == "n1" {
				old = a
			}
		}
		c.away(w, old)
		p := w.run("low")
		want := ""
		if c.kept {
			want = old.ID
		}
		if len(p.Place) != 1 || p.Place[0].NodeID != "n1" || p.Place[0].PreviousAllocation != want {
			t.Errorf("%s: %s, after %q", name, describe(p), want)
		}
	}
}

// A canary that was never promoted is not between an allocation and the next one of its name.
func TestSticky_DataIsTakenOverAfterACanary(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.preempting()
	d.nodes("n1")
	version := func(mhz, canaries int) {
		d.job(aJob("web", structs.JobService, sticky, priority(20), cpu(mhz), withCanaries(canaries)))
		d.plan()
	}
	version(400, 0)
	old := d.allocs("web")[0]
	d.health(old, true, structs.AllocRunning)
	version(401, 1)
	version(400, 1) // the first one again
	d.job(aJob("high", structs.JobService, priority(70), cpu(700)))
	d.run("high")
	d.client(old, structs.AllocComplete)
	d.nodes("n2")
	d.plan()
	if live := d.allocs("web"); len(live) != 1 || live[0].PreviousAllocation != old.ID {
		t.Errorf("%+v, after %s", live, old.ID)
	}
}

// Nobody takes over the data of a displaced canary, nor that of a displaced allocation whose index a promoted
// canary has. The node and the servers do not keep them for a replacement.
func TestSticky_DataIsNotAwaitedBehindACanary(t *testing.T) {
	for name, sizes := range map[string][2]int{"the canary": {300, 500}, "the former one": {500, 300}} {
		t.Run(name, func(t *testing.T) {
			d := &deployments{newFixture(t)}
			d.preempting()
			d.nodes("n1")
			for canaries, mhz := range sizes {
				d.job(aJob("web", structs.JobService, sticky, priority(20), cpu(mhz), withCanaries(canaries)))
				d.plan()
				for _, a := range d.allocs("web") {
					d.health(a, true, structs.AllocRunning)
				}
			}
			before := d.allocs("web")
			d.job(aJob("high", structs.JobService, priority(70), cpu(600)))
			d.run("high")
			d.plan()
			if name == "the canary" {
				d.nodes("n2")
			} else if err := d.operateOn(
				state.LatestDeployment(d.s.Read(), "default", "web").ID, "promote"); err != nil {
				t.Fatal(err)
			}
			d.plan()
			for _, a := range before {
				a = state.Alloc(d.s.Read(), a.ID)
				if _, awaited := state.DataAwaited(d.s.Read(), a); a.ServerTerminal() && awaited {
					t.Errorf("the data of %s awaits another allocation\n%s", a.Name, d.describe())
				}
			}
			if d.evicted() != "web" {
				t.Errorf("displaced %q", d.evicted())
			}
		})
	}
}

// A new version takes over the data of an allocation that has failed in the former one.
func TestSticky_DataOfAFailedAllocationIsTakenOver(t *testing.T) {
	for _, kind := range []string{structs.JobService, structs.JobBatch, structs.JobSystem} {
		d := &deployments{newFixture(t)}
		d.nodes("n1", "n2")
		d.job(aJob("web", kind, sticky))
		d.plan()
		before := map[string]string{}
		for _, a := range d.allocs("web") {
			before[a.ID] = a.NodeID
			d.client(a, structs.AllocFailed)
		}
		d.plan()
		d.job(aJob("web", kind, sticky, cpu(200)))
		d.plan()
		for _, a := range d.allocs("web") {
			if before[a.PreviousAllocation] != a.NodeID {
				t.Errorf("%s: %s on %s is after %q of %v", kind, a.Name, a.NodeID, a.PreviousAllocation, before)
			}
			delete(before, a.PreviousAllocation)
		}
		if len(before) > 0 {
			t.Errorf("%s: nobody has the data of %v", kind, before)
		}
	}
}

// A promoted canary has the index of an allocation that it replaces, also if that one moved after the canary
// was placed. Then nobody takes over the data of the moved one.
func TestSticky_APromotedCanaryFollowsOneThatMovedLater(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.nodes("n1", "n2", "n3")
	version := func(mhz, canaries int) {
		d.job(aJob("web", structs.JobService, sticky, cpu(mhz), withCanaries(canaries)))
		d.plan()
	}
	of := func(canary bool) *structs.Allocation {
		t.Helper()
		for _, a := range d.allocs("web") {
			if a.DeploymentStatus.IsCanary() == canary {
				return a
			}
		}
		t.Fatalf("no allocation with canary %v: %s", canary, d.describe())
		return nil
	}
	version(400, 0)
	d.health(of(false), true, structs.AllocRunning)
	d.plan()
	version(401, 1)
	canary := of(true)
	d.health(canary, true, structs.AllocRunning)
	do(d.fixture, state.AllocsMigrate, &structs.AllocsMigrateRequest{
		AllocIDs:     []string{of(false).ID},
		WriteOptions: d.now(),
	})
	d.plan()
	moved := of(false)
	d.client(moved, structs.AllocRunning)
	if err := d.operateOn(state.LatestDeployment(d.s.Read(), "default", "web").ID, "promote"); err != nil {
		t.Fatal(err)
	}
	d.plan()
	moved = state.Alloc(d.s.Read(), moved.ID)
	if _, awaited := state.DataAwaited(d.s.Read(), moved); awaited || !moved.ServerTerminal() {
		t.Errorf("awaited %v: %+v", awaited, moved)
	}
	d.client(canary, structs.AllocFailed)
	version(402, 0)
	if live := d.allocs("web"); len(live) != 1 || live[0].PreviousAllocation != canary.ID {
		t.Errorf("after %q, want the canary %s and not %s", live[0].PreviousAllocation, canary.ID, moved.ID)
	}
}
