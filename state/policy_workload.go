package state

import (
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// checkJobACL returns an error unless the workloads to which a policy is given, nil for none, are named well.
// The leader checks it before the log, and PolicyPut again.
func checkJobACL(w *access.JobACL) error {
	switch {
	case w == nil:
		return nil
	case w.Namespace == "" || w.JobID == "":
		return structs.Invalidf("JobACL: expected a Namespace and a JobID")
	case w.Group == "" && w.Task != "":
		return structs.Invalidf("JobACL: expected a Group with the Task %q",
			structs.Cut(w.Task, structs.MaxQuoted))
	}
	for _, name := range []string{w.Namespace, w.JobID, w.Group, w.Task} {
		if len(name) > structs.MaxName {
			return structs.Invalidf("JobACL: a name has %d bytes; expected at most %d", len(name), structs.MaxName)
		}
	}
	return nil
}

// PoliciesOfWorkload returns the policies that a workload has by its identity, by name. w has the task "" for
// a service.
func PoliciesOfWorkload(tx mvcc.Reader, w access.JobACL) (all []*access.Policy) {
	for p := range schema.ACLPoliciesByJob.Scan(tx, w.Namespace, w.JobID) {
		ofGroup := p.JobACL.Group == "" || p.JobACL.Group == w.Group
		ofTask := p.JobACL.Task == "" || p.JobACL.Task == w.Task
		if ofGroup && ofTask {
			all = append(all, p)
		}
	}
	return all
}
