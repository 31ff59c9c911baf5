package invariant

import (
	"fmt"
	"slices"

	"berth/state/csi"
	"berth/structs"
)

// DeploymentsEnd finds deployments that have not ended, without those of jobs that wait for capacity.
func DeploymentsEnd(v *View) (faults []string) {
	for key, d := range v.Deployments {
		if d.Active() && !v.blocked(key) {
			faults = append(faults, fmt.Sprintf("job %s, version %d: %s (%s)",
				d.JobID, d.JobVersion, d.Status, d.StatusDescription))
		}
	}
	return faults
}

// blocked reports whether a job waits for capacity.
func (v *View) blocked(key structs.JobKey) bool {
	for _, e := range v.Open[key] {
		if e.Status == structs.EvalBlocked {
			return true
		}
	}
	return false
}

// pending reports whether a job has an evaluation that is still to be processed.
func (v *View) pending(key structs.JobKey) bool {
	return slices.ContainsFunc(v.Open[key], func(e *structs.Evaluation) bool {
		return e.Status == structs.EvalPending
	})
}

// NothingPending finds evaluations that are still to be processed.
func NothingPending(v *View) (faults []string) {
	for key, open := range v.Open {
		for _, e := range open {
			if e.Status == structs.EvalPending {
				faults = append(faults, fmt.Sprintf("job %s: evaluation %s, because of %s: %s",
					key.ID, e.ID, e.TriggeredBy, e.StatusDescription))
			}
		}
	}
	return faults
}

// DrainsEnd finds drains that have not ended, without those that wait for jobs without capacity, or for
// groups that miss unhealthy allocations.
func DrainsEnd(v *View) (faults []string) {
	for id, n := range v.Nodes {
		if n.DrainStrategy == nil {
			continue
		}
		waits := false
		for _, a := range v.OnNode[id] {
			key := structs.JobKey{Namespace: a.Namespace, ID: a.JobID}
			waits = waits || v.blocked(key) || v.missesUnhealthy(key, a.TaskGroup)
		}
		if !waits {
			faults = append(faults, fmt.Sprintf("node %s, with %d allocations", id, len(v.OnNode[id])))
		}
	}
	return faults
}

// missesUnhealthy reports whether a group of a job has an allocation that is to run and is unhealthy.
func (v *View) missesUnhealthy(key structs.JobKey, group string) bool {
	return slices.ContainsFunc(v.ByJob[key], func(a *structs.Allocation) bool {
		return a.TaskGroup == group && !a.Terminal() && a.DeploymentStatus.IsUnhealthy()
	})
}

// NothingWaits finds allocations that do not run although they are to run, and those that do not end.
func NothingWaits(v *View) (faults []string) {
	for _, all := range v.OnNode {
		for _, a := range all {
			if a.ServerTerminal() || a.ClientStatus != structs.AllocRunning {
				faults = append(faults, fmt.Sprintf("%s on node %s: %s", describe(a), a.NodeID, a.ClientDescription))
			}
		}
	}
	return faults
}

// ClaimsUsed finds claims that wait, and claims of allocations that do not run.
func ClaimsUsed(v *View) (faults []string) {
	for _, c := range v.Claims {
		if c.State != structs.ClaimGranted || v.ended(c.AllocID) {
			faults = append(faults, fmt.Sprintf("volume %s: claim of %s is %s", c.VolumeID, c.AllocID, c.State))
		}
	}
	return faults
}

// AttachmentsUsed finds attachments that are being made or undone.
func AttachmentsUsed(v *View) (faults []string) {
	for a := range csi.UnsettledAttachments(v.Tx) {
		faults = append(faults, fmt.Sprintf("volume %s on node %s is %s: %+v", a.VolumeID, a.NodeID, a.State, a.LastError))
	}
	return faults
}
