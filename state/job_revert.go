package state

import (
	"slices"

	"berth/structs"
)

// revertJob makes the specification of an earlier version the newest version of the job, and returns it. The
// source of that version goes with it. current is the row of the job. A stopped job runs again.
func revertJob(tx *WriteTx, current, version *structs.Job, now int64) *structs.Job {
	j := version.Copy()
	j.Stop = false
	source := JobSubmission(tx, version.Namespace, version.ID, version.Version)
	putJobVersion(tx, j, current, now) // it may delete the oldest version with its source
	putSubmission(tx, source, j)
	return j
}

// NewestStable returns the newest version of a job that is known to work, before the current one: its
// deployment has succeeded, or an operator has said so. It is nil if there is none.
func NewestStable(tx Reader, current *structs.Job) *structs.Job {
	var stable *structs.Job
	for v := range JobVersions(tx, current.Namespace, current.ID) {
		if v.Stable && v.Version < current.Version {
			stable = v
		}
	}
	return stable
}

// JobReschedule evaluates a job and requests that its failed allocations be replaced at once, also if its
// policy allows no more attempts. It leaves out allocations with a successor.
func JobReschedule(tx *WriteTx, p *structs.JobEvaluateRequest) error {
	j := Job(tx, p.RequestNamespace(), p.JobID)
	if j == nil {
		return structs.NotFoundf("no job %q in namespace %q", p.JobID, p.RequestNamespace())
	}
	for _, old := range slices.Collect(AllocsByJob(tx, j.Namespace, j.ID)) {
		failed := old.ClientStatus == structs.AllocFailed && !old.ServerTerminal()
		if !failed || old.JobVersion != j.Version || old.NextAllocation != "" || old.Migrate {
			continue
		}
		a := old.Copy()
		a.Migrate = true
		a.ModifyTime = p.Now
		putAlloc(tx, old, a)
	}
	putGivenEval(tx, p.Eval, j, p.Now)
	return nil
}
