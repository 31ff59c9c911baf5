package control

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/structs"
)

func TestMakePlan_GivesStopCausesIfAllServersStoreThem(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1", true)
	placeOnN1(w, &structs.Job{ID: "web", Type: structs.JobService, TaskGroups: []*structs.TaskGroup{{
		Name:  "g",
		Count: 1,
	}}})
	put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n1"},
		Status:       structs.NodeDown,
		WriteOptions: now(),
	})
	for version, want := range map[int]structs.StopCause{
		fsm.StopCausesSince - 1: "",
		fsm.StopCausesSince:     structs.StopNodeDown,
	} {
		w.Commands = func() int { return version }
		eval := &structs.Evaluation{ID: "e2", JobID: "web", Status: structs.EvalPending}
		p, err := w.makePlan(w.Store.Read(), eval, time.Now())
		if err != nil || len(p.Stop) != 1 ||
			p.Stop[0].Cause != want || p.Stop[0].ClientStatus != structs.AllocLost {
			t.Errorf("version %d: got stops %+v, %v; want one with the cause %q", version, p.Stop, err, want)
		}
	}
}
