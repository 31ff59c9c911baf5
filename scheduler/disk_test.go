package scheduler

import (
	"fmt"
	"testing"
	"time"

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
