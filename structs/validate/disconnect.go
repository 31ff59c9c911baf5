package validate

import (
	"berth/structs"
	"berth/structs/validate/field"
)

// checkDisconnect checks what a group wants of its allocations on a node that has lost the servers.
func checkDisconnect(f field.Errors, d *structs.DisconnectStrategy, j *structs.Job) {
	if d == nil {
		return
	}

	f.CheckDuration("lost_after", d.LostAfter, structs.MaxInterval)
	if d.Reconcile != "" {
		f.CheckOneOf("reconcile", d.Reconcile,
			[]string{structs.ReconcileBestScore, structs.ReconcileKeepOriginal,
				structs.ReconcileKeepReplacement, structs.ReconcileLongestRunning})
	}

	if d.StopOnClientAfter == nil {
		return
	}

	f.CheckDuration("stop_on_client_after", *d.StopOnClientAfter, structs.MaxInterval)
	f.Require(d.LostAfter == 0, "lost_after and stop_on_client_after exclude each other: "+
		"an allocation that its node stops is lost after that; leave one of them out")

	// The allocations of the other types belong to their nodes, so none would replace a stopped one.
	f.Require(j.Type == structs.JobService || j.Type == structs.JobBatch,
		"stop_on_client_after is for service and batch jobs, not for a %s job", j.Type)
}
