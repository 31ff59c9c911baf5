package allocrunner

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

func TestControl_RestartsWithoutAnAttempt(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a, r, _ := execAgent(t, fx, testAlloc("a"))
		defer a.stop()
		begin := time.Now()
		for range 3 { // the policy allows one attempt
			a.tasks["a"].control.RestartNow("its text changed")
			synctest.Wait()
		}
		s := r.ClientState().TaskStates["a"]
		took := time.Since(begin)
		if s.State != structs.TaskRunning || s.Restarts != 3 || took != 0 {
			t.Errorf("got %+v after %s", s, took)
		}
		if !slices.Contains(eventsOf(s), structs.TaskEventRestartSignal) {
			t.Errorf("got events %q", eventsOf(s))
		}
	})
}

func TestControl_ReachesTheProcess(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a, _, command := execAgent(t, fx, testAlloc("a"))
		defer a.stop()
		control := a.tasks["a"].control
		err := control.Signal(t.Context(), "hup")
		if err != nil || !slices.Contains(fx.machine.Log(), "signal SIGHUP alloc1/a") {
			t.Errorf("got %v and %q", err, fx.machine.Log())
		}
		result, err := control.Exec(t.Context(), &driver.ExecConfig{Command: []string{"x"}})
		if err != nil || result.ExitCode != 3 || *command != "alloc1/a" {
			t.Errorf("got %+v, %v from %s", result, err, *command)
		}
	})
}

func TestControl_FailsTheTask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a, r, _ := execAgent(t, newFixture(t), testAlloc("a"))
		defer a.stop()
		control := a.tasks["a"].control
		control.Fail(structs.TaskEventHookFailed, "the script failed")
		<-r.Unwound()
		s := r.ClientState().TaskStates["a"]
		last := s.Events[len(s.Events)-1]
		if !s.Failed || last.Type != structs.TaskEventHookFailed || last.Message != "the script failed" {
			t.Errorf("got %+v and %+v", s, last)
		}
		err := control.Signal(t.Context(), "SIGHUP")
		if !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("got %v", err)
		}
	})
}
