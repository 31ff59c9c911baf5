package allocrunner

import "berth/client/allocrunner/lifecycle"

// resumeServices offers the services of the tasks that a former agent has left running, before the first
// report of this agent. A task counts as running until the driver knows that it has ended.
func (r *rounds) resumeServices() {
	for _, t := range r.record.taskList() {
		if t.MayRun() {
			t.OfferServices()
		}
	}
	if r.record.anyRunning() {
		r.openServices()
	}
}

// openServices offers the services that have a proxy, unless the tasks of the round are to stop.
func (r *rounds) openServices() {
	rd, _ := r.record.current()
	if rd.Stopping.Err() != nil {
		return
	}
	r.services.Open(rd)
	if rd.Stopping.Err() != nil { // withdrawServices may have passed before Open
		r.services.Shut(rd)
	}
}

// withdrawServices ends the services of the tasks of a round that is to stop.
func (r *rounds) withdrawServices(rd *lifecycle.Round, tasks taskSet) {
	r.services.Shut(rd)
	var names []string
	for _, t := range tasks {
		if !t.IsPoststop() {
			names = append(names, t.Name)
		}
	}
	r.services.Withdraw(names...)
}
