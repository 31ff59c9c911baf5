package drainer

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// TestWaits_OfSomeNodes: the waits of some nodes are those of each, and nodes that do not drain have none.
func TestWaits_OfSomeNodes(t *testing.T) {
	f := newFleet(t, 4)
	f.register("logs", structs.JobSystem, 1)
	for _, node := range []string{"n0", "n1", "n2"} {
		f.drain(node, structs.DrainSpec{})
		f.Stuck[f.allocOn(node)] = true
	}
	schedtest.Do(f.Fleet, state.AllocsMigrate, &structs.AllocsMigrateRequest{
		AllocIDs:     []string{f.allocOn("n0"), f.allocOn("n1"), f.allocOn("n2")},
		WriteOptions: f.Now(),
	})
	tx := f.Store.Read()
	n0 := state.Node(tx, "n0")
	n2 := state.Node(tx, "n2")
	got := WaitsOf(tx, []*structs.Node{n2, n0, state.Node(tx, "n3")}, f.Clock)
	want := slices.Concat(Waits(tx, n0, f.Clock), Waits(tx, n2, f.Clock))
	if len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Waits(tx, state.Node(tx, "n3"), f.Clock); got != nil {
		t.Errorf("a node that does not drain has %+v", got)
	}
}

// allocOn returns the ID of the only allocation on a node.
func (f *fleet) allocOn(node string) string {
	f.T.Helper()
	for a := range state.AllocsByNode(f.Store.Read(), node) {
		return a.ID
	}
	f.T.Fatalf("no allocation is on node %s", node)
	return ""
}

// An allocation that stops names the tasks that still run, with the times that they have for it.
func TestWaits_NameTheTasksThatStop(t *testing.T) {
	f := newFleet(t, 2)
	f.register("web", structs.JobService, 1, func(g *structs.TaskGroup) {
		g.ShutdownDelay = new(2 * time.Second)
		g.Tasks[0].KillTimeout = 30 * time.Second
		g.Tasks[0].ShutdownDelay = 5 * time.Second
		plain := *g.Tasks[0]
		plain.Name = "plain"
		plain.KillTimeout = 0
		plain.ShutdownDelay = 0
		g.Tasks = append(g.Tasks, &plain)
	})
	a := f.Allocs("web")[0]
	f.Stuck[a.ID] = true
	report := func(t, plain, description string) {
		f.Report(a, &structs.AllocClientUpdate{
			ClientStatus:      structs.AllocRunning,
			ClientDescription: description,
			TaskStates:        map[string]*structs.TaskState{"t": {State: t}, "plain": {State: plain}},
		})
	}
	report(structs.TaskRunning, structs.TaskRunning, "running")
	f.drain(a.NodeID, structs.DrainSpec{Deadline: -1})
	f.tick()
	times := "kill_timeout 30s, shutdown_delay 5s, shutdown_delay of the group 2s"
	want := func(what string) {
		t.Helper()
		if got := f.reasons(a.NodeID); got != "web: it is stopping: "+what {
			t.Errorf("got %q, want %q", got, what)
		}
	}
	want("waits for task t (" + times + "), task plain (shutdown_delay of the group 2s)")
	schedtest.Do(f.Fleet, state.AllocStop, &structs.AllocStopRequest{
		AllocID:         a.ID,
		NoShutdownDelay: true,
		WriteOptions:    f.Now(),
	})
	want("waits for task t (kill_timeout 30s), task plain")
	report(structs.TaskRunning, structs.TaskDead, "running")
	want("waits for task t (kill_timeout 30s)")
	report(structs.TaskDead, structs.TaskDead, "unmounting a volume")
	want("unmounting a volume")
	report(structs.TaskDead, structs.TaskDead, "")
	want("its tasks have not ended yet")
}
