package allocrunner

import (
	"berth/client/allocrunner/lifecycle"
	"berth/client/allocrunner/taskrunner"
	"berth/structs"
)

// resumeServices offers the services of the tasks that a former agent has left running, before the first
// report of this agent. A task counts as running until the driver knows that it has ended.
func (r *Runner) resumeServices() {
	for _, t := range r.taskList() {
		if t.MayRun() {
			t.OfferServices()
		}
	}
	if r.anyRunning() {
		r.openServices()
	}
}

// openServices offers the services that have a proxy, unless the tasks of the round are to stop.
func (r *Runner) openServices() {
	rd, _ := r.current()
	if rd.Stopping.Err() != nil {
		return
	}
	r.services.Open(rd)
	if rd.Stopping.Err() != nil { // withdrawServices may have passed before Open
		r.services.Shut(rd)
	}
}

// withdrawServices ends the services of the tasks of a round that is to stop.
func (r *Runner) withdrawServices(rd *lifecycle.Round, tasks []*taskrunner.Task) {
	r.services.Shut(rd)
	var names []string
	for _, t := range tasks {
		if !t.IsPoststop() {
			names = append(names, t.Name)
		}
	}
	r.services.Withdraw(names...)
}

// Checks returns the last results of the allocation's checks by their IDs.
func (r *Runner) Checks() map[string]*structs.CheckResult { return r.services.Checks() }

// expandFor returns the function that replaces placeholders in texts of a task, or of the group for "".
func (r *Runner) expandFor(name string) func(string) string {
	for _, t := range r.taskList() {
		if t.Name == name {
			return t.Expander()
		}
	}
	return r.shared.Expander()
}
