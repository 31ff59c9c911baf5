package control

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/structs"
)

func TestMakePlan_GivesStopCauses(t *testing.T) {
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
	eval := &structs.Evaluation{ID: "e2", JobID: "web", Status: structs.EvalPending}
	p, err := w.makePlan(w.Store.Read(), eval, time.Now())
	if err != nil || len(p.Stop) != 1 ||
		p.Stop[0].Cause != structs.StopNodeDown || p.Stop[0].ClientStatus != structs.AllocLost {
		t.Errorf("got stops %+v, %v; want one with the cause %q", p.Stop, err, structs.StopNodeDown)
	}
}
