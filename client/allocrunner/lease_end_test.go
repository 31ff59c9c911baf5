package allocrunner

import (
	"testing"
	"testing/synctest"

	"berth/structs"
)

// The servers do not count the end of a lease as a failure of the tasks, so they have to know it, however it
// reaches the allocation.
func TestRunner_TellsThatTheLeaseOfItsNodeHasEnded(t *testing.T) {
	for name, end := range map[string]func(*fixture, *agent, *Runner){
		"the agent gives it up": func(_ *fixture, _ *agent, r *Runner) { r.LoseLease("the lease ended") },
		"the agent stops it":    func(_ *fixture, _ *agent, r *Runner) { r.StopAlone("the lease ended") },
		"the guard was faster": func(fx *fixture, _ *agent, _ *Runner) {
			fx.machine.Exit("alloc1/web", exitResult(137))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				a.deps.LeaseEnded = func(id string) bool { return id == "alloc1" }
				alloc := testAlloc("web")
				alloc.Job.TaskGroups[0].RestartPolicy.Attempts = 0
				r := a.new(alloc)
				synctest.Wait()
				end(fx, a, r)
				<-r.Unwound()
				u := a.last()
				ended := structs.Allocation{ClientStatus: u.ClientStatus, TaskStates: u.TaskStates}
				if !ended.EndedByLease() {
					t.Errorf("%s, the events are %+v", u.ClientStatus, u.TaskStates["web"].Events)
				}
			})
		})
	}
}

// The agent was killed before its tasks ended, and its successor has to tell the same.
func TestRunner_KeepsTheEndOfTheLease(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		r := a.new(testAlloc("web"))
		synctest.Wait()
		r.record.saveFailure(failure{reason: "the lease ended", lost: true, event: structs.TaskEventLeaseEnded})
		a.stop()
		b := fx.agent()
		defer b.stop()
		r = b.restore()[0]
		<-r.Unwound()
		u := b.last()
		ended := structs.Allocation{ClientStatus: u.ClientStatus, TaskStates: u.TaskStates}
		if !ended.EndedByLease() {
			t.Errorf("%s, the events are %+v", u.ClientStatus, u.TaskStates["web"].Events)
		}
	})
}
