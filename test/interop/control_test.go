package interop

import (
	"strings"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"

	"berth/structs"
)

// fakeControl accepts requests for the task app of the allocation a1.
func fakeControl(act string) error {
	switch act {
	case "restart a1 app", "restart all a1", "signal a1 app SIGHUP", "gc a1":
		return nil
	}
	return structs.Conflictf("%s: it does not run", act)
}

func TestClient_RestartsAndSignalsTasks(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	setAnswers(caller)
	alloc := &public.Allocation{ID: "a1", NodeID: "n1"}
	checkNoError(t, "restart", c.Allocations().Restart(alloc, "app", nil))
	checkNoError(t, "restart of all", c.Allocations().RestartAllTasks(alloc, nil))
	checkNoError(t, "signal", c.Allocations().Signal(alloc, nil, "app", "SIGHUP"))
	checkNoError(t, "gc", c.Allocations().GC(alloc, nil))
	for name, err := range map[string]error{
		"restart": c.Allocations().Restart(alloc, "", nil),
		"signal":  c.Allocations().Signal(alloc, nil, "", "SIGHUP"),
	} {
		if err == nil || !strings.Contains(err.Error(), "it does not run") {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := c.Allocations().Signal(alloc, nil, "app", "nothing")
	if err == nil || !strings.Contains(err.Error(), "is not a signal") {
		t.Errorf("an unknown signal: %v", err)
	}
}

// testControl restarts and signals the task of a running allocation of a real agent.
func testControl(t *testing.T, c *public.Client, alloc *public.Allocation) {
	awaitStarts := func(want uint64) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for time.Now().Before(deadline) {
			a, _, err := c.Allocations().Info(alloc.ID, nil)
			if !checkNoError(t, "allocation", err) {
				return
			}
			s := a.TaskStates["app"]
			if s.State == "running" && s.Restarts == want {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("the task has not started %d times", want)
	}
	checkNoError(t, "restart", c.Allocations().Restart(alloc, "app", nil))
	awaitStarts(1)
	checkNoError(t, "restart of all", c.Allocations().RestartAllTasks(alloc, nil))
	awaitStarts(2)
	checkNoError(t, "signal", c.Allocations().Signal(alloc, nil, "app", "SIGCONT"))
	if err := c.Allocations().Restart(alloc, "none", nil); err == nil {
		t.Error("a task that does not exist was restarted")
	}
	if err := c.Allocations().GC(alloc, nil); err == nil {
		t.Error("a running allocation was removed")
	}
}
