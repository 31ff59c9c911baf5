package allocrunner

import "berth/structs"

// Checks returns the last results of the allocation's checks by their IDs.
func (r *Runner) Checks() map[string]*structs.CheckResult { return r.services.Checks() }

// expandFor returns the function that replaces placeholders in texts of a task, or of the group for "".
func (r *Runner) expandFor(name string) func(string) string {
	for _, t := range r.record.taskList() {
		if t.Name == name {
			return t.Expander()
		}
	}
	return r.shared.Expander()
}
