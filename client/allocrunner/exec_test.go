package allocrunner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/structs"
	"berth/structs/jobaction"
)

// execAgent runs an allocation whose commands end with the code 3. command receives the task of each.
func execAgent(t *testing.T, fx *fixture, alloc *structs.Allocation) (a *agent, r *Runner, command *string) {
	t.Helper()
	command = new(string)
	fx.machine.Command = func(_ context.Context, id string, _ *driver.ExecConfig) (*driver.ExitResult, error) {
		*command = id
		return &driver.ExitResult{ExitCode: 3}, nil
	}
	a = fx.agent()
	r = a.new(alloc)
	close(a.contacted)
	synctest.Wait()
	return a, r, command
}

func TestExec_ChoosesTheTask(t *testing.T) {
	for name, c := range map[string]struct {
		tasks  []string
		leader string
		named  string
		want   string // the task, or a part of the error
	}{
		"the only one":     {[]string{"a"}, "", "", "a"},
		"the named one":    {[]string{"a", "b"}, "", "b", "b"},
		"the leader":       {[]string{"a", "b"}, "b", "", "b"},
		"not the leader":   {[]string{"a", "b"}, "b", "a", "a"},
		"one of many":      {[]string{"a", "b"}, "", "", "has 2 tasks and no leader; name one of: a, b"},
		"an unknown name":  {[]string{"a", "b"}, "", "c", `has no task "c"; expected one of: a, b`},
		"not the only one": {[]string{"a"}, "", "c", `has no task "c"; expected one of: a`},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				alloc := testAlloc(c.tasks...)
				for _, task := range alloc.Job.Group(alloc.TaskGroup).Tasks {
					task.Leader = task.Name == c.leader
				}
				a, r, command := execAgent(t, newFixture(t), alloc)
				defer a.stop()
				run, err := r.Exec(c.named)
				if err != nil {
					if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.want) {
						t.Errorf("got %v", err)
					}
					return
				}
				result, err := run(t.Context(), &driver.ExecConfig{})
				if err != nil || result.ExitCode != 3 || *command != alloc.ID+"/"+c.want {
					t.Errorf("got %+v, %v from %s", result, err, *command)
				}
			})
		})
	}
}

func TestExec_NeedsARunningTask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		alloc := testAlloc("a", "b")
		a, r, _ := execAgent(t, fx, alloc)
		defer a.stop()
		r.Stop("the test is over")
		<-r.Unwound()
		_, err := r.Exec("a")
		if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), "is dead") {
			t.Errorf("got %v", err)
		}
	})
}

// plainDriver is a driver that runs no commands.
type plainDriver struct{ driver.Driver }

func TestExec_NeedsADriverThatRunsCommands(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a, r, _ := execAgent(t, fx, testAlloc("a"))
		defer a.stop()
		fake := fx.machine.Drivers()["fake"]
		r.shared.Drivers = drivertest.Set{"fake": plainDriver{fake}}
		_, err := r.Exec("")
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "driver fake") {
			t.Errorf("got %v", err)
		}
	})
}

// A command of a driver that hangs ends with its task, and with its user.
func TestExec_EndsWithTheTaskAndItsUser(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a, r, _ := execAgent(t, fx, testAlloc("a"))
		defer a.stop()
		fx.machine.Command = func(ctx context.Context, _ string, _ *driver.ExecConfig) (*driver.ExitResult, error) {
			<-ctx.Done()
			return nil, errors.New("the driver's own words")
		}
		run, err := r.Exec("")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := run(ctx, &driver.ExecConfig{}); !errors.Is(err, context.Canceled) {
			t.Errorf("the user has gone: %v", err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := run(t.Context(), &driver.ExecConfig{})
			ended <- err
		}()
		synctest.Wait()
		r.Stop("the test is over")
		if err := <-ended; !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("the task has ended: %v", err)
		}
	})
}

// TestAction_RunsInItsTask: an action runs in its task, in an allocation of its job alone, and while it runs.
func TestAction_RunsInItsTask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		alloc := testAlloc("a", "b")
		alloc.Job.Group(alloc.TaskGroup).Task("b").Actions = []*structs.Action{{Name: "dump", Command: "/d"}}
		a, r, command := execAgent(t, newFixture(t), alloc)
		defer a.stop()
		at := jobaction.Target{AllocID: alloc.ID, Action: "dump", JobID: alloc.JobID, Namespace: alloc.Namespace}
		run, err := Action(r, at)
		if err != nil {
			t.Fatal(err)
		}
		result, err := run(t.Context(), &driver.ExecConfig{})
		if err != nil || result.ExitCode != 3 || *command != alloc.ID+"/b" {
			t.Errorf("got %+v, %v from %s", result, err, *command)
		}

		for _, change := range []func(*jobaction.Target){
			func(at *jobaction.Target) { at.Task = "a" },
			func(at *jobaction.Target) { at.JobID = "another" },
			func(at *jobaction.Target) { at.Namespace = "another" },
			func(at *jobaction.Target) { at.Action = "another" },
		} {
			other := at
			change(&other)
			_, err := Action(r, other)
			if !structs.IsKind(err, structs.KindInvalid) {
				t.Errorf("%+v: got %v", other, err)
			}
		}

		r.Stop("the test is over")
		<-r.Unwound()
		_, err = Action(r, at)
		if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), "is dead") {
			t.Errorf("after the end: %v", err)
		}
	})
}
