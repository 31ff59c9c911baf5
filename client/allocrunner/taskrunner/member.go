package taskrunner

import (
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/structs"
)

// IsPoststop reports whether the task runs after all others.
func (t *Task) IsPoststop() bool {
	return t.First.HasHook(structs.LifecyclePoststop)
}

// State returns a copy of the task's state.
func (t *Task) State() *structs.TaskState { return t.record.state() }

// Runs reports whether the task has a process.
func (t *Task) Runs() bool {
	rec := t.record.get()
	return rec.runs()
}

// MayRun reports whether a former agent has left the task running: its process has been found, or the driver
// does not know yet.
func (t *Task) MayRun() bool {
	return t.live || t.sought != nil && t.State().State == structs.TaskRunning
}

// Dead is closed once the task is dead. The Downs of its hooks may still run.
func (t *Task) Dead() <-chan struct{} { return t.dead }

// IsToStop reports whether the task may not start any more: its round is to stop, or a poststop task itself.
func (t *Task) IsToStop() bool { return t.halt.Err() != nil }

// Expander returns the function that replaces placeholders in texts of the task.
func (t *Task) Expander() func(string) string {
	_, vars := t.builder.variables()
	return vars.expand
}

// Report adds an event with a message.
func (t *Task) Report(message string) {
	t.record.emit(newEvent(structs.TaskEventHookMessage, "%s", message))
}

// Member returns the task for decisions on its order.
func (t *Task) Member() lifecycle.Member {
	rec := t.record.get()
	return lifecycle.Member{
		Task:  t.First,
		State: rec.State, // no update changes it: each one makes a copy
		Ran:   rec.Ran,
	}
}

// ForRound returns the task of the next round. A poststop task is the same in all rounds.
func (t *Task) ForRound(rd *lifecycle.Round) *Task {
	if t.IsPoststop() {
		return t
	}

	// The contexts of the last round have ended, so the next one needs a task with its own. The state goes
	// on, and the history for the restart policy begins again.
	next := NewTask(t.shared, rd, t.Spec())
	rec := t.record.get()
	next.record.rec.State = rec.State
	next.record.rec.Ran = rec.Ran
	e := newEvent(structs.TaskEventRestarting, "Restarting in 0s: %s", lifecycle.RestartAll.Reason)
	next.record.update(e, func(rec *taskRecord, s *structs.TaskState) {
		s.State = structs.TaskPending
		s.Failed = false
		s.FinishedAt = time.Time{}
		if rec.Ran {
			s.Restarts++
			s.LastRestart = time.Now()
		}
	})

	return next
}

// OfferServices offers the services of a task that runs, unless it is to stop.
func (t *Task) OfferServices() {
	if t.halt.Err() != nil {
		return
	}
	var location *driver.Location
	h := t.record.get().Handle
	if h != nil {
		location = h.Location
	}
	t.shared.Services.Start(t.Name, t.Control, t.record.state().StartedAt, location)
	if t.halt.Err() != nil { // withdrawServices may have passed before Start
		t.shared.Services.Withdraw(t.Name)
	}
}
