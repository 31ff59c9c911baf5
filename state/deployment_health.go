package state

import (
	"slices"
	"time"

	"berth/structs"
)

// reportedHealth returns the health of an allocation after a report of its node. A health that is known
// stays; only an unhealthy allocation in no deployment may become healthy. An allocation that ends in a
// deployment was not healthy.
func reportedHealth(
	tx *WriteTx, a *structs.Allocation, u *structs.AllocClientUpdate, now int64,
) *structs.AllocDeploymentStatus {
	old := a.DeploymentStatus
	h := u.DeploymentStatus
	reported := h.IsKnown() && u.DeploymentID == a.DeploymentID
	switch {
	case a.ServerTerminal() || old.IsKnown() && !a.TakesHealth(h):
		return old
	case a.DeploymentID == "" && reported:
		return decidedHealth(tx, old, *h.Healthy, now)
	case !isCounted(tx, a):
		return old
	// The loss of a node, or of its lease, says nothing about the version that ran there.
	case a.ClientTerminal() && a.ClientStatus != structs.AllocLost && !a.EndedByLease():
		return decidedHealth(tx, old, false, now)
	case reported:
		return decidedHealth(tx, old, *h.Healthy, now)
	}
	return old
}

// decidedHealth returns a health that is known from this entry on. A canary stays one until its promotion.
func decidedHealth(
	tx *WriteTx, old *structs.AllocDeploymentStatus, healthy bool, now int64,
) *structs.AllocDeploymentStatus {
	return &structs.AllocDeploymentStatus{
		Healthy:     &healthy,
		Timestamp:   time.Unix(0, now).UTC(),
		Canary:      old.IsCanary(),
		ModifyIndex: tx.Index,
	}
}

// followHealth continues the deployment of an allocation whose health has become known: it may promote
// canaries or fail. The job is evaluated.
func followHealth(tx *WriteTx, a *structs.Allocation, now int64) {
	d := Deployment(tx, a.DeploymentID)
	s := d.Group(a.TaskGroup)
	switch {
	case s == nil || !d.Active():
	// Without a deadline no later progress is waited for, so the first failure decides.
	case a.DeploymentStatus.IsUnhealthy() && s.ProgressDeadline == 0:
		failDeployment(tx, d, structs.DeploymentFailedByAlloc, now)
	case a.DeploymentStatus.IsHealthy():
		promoteAutomatically(tx, d, now)
		evaluateDeployment(tx, Job(tx, d.Namespace, d.JobID), d, now)
	}
}

// promoteAutomatically promotes the canaries of a deployment that needs no operator, once all are healthy.
func promoteAutomatically(tx *WriteTx, d *structs.Deployment, now int64) {
	if PromotesItself(tx, d) {
		promote(tx, d, sortedGroups(d), now)
	}
}

// PromotesItself reports whether all canaries of a deployment that await their promotion are healthy and need
// no operator.
func PromotesItself(tx Reader, d *structs.Deployment) bool {
	if d.Status != structs.DeploymentRunning || !d.AutoPromotes() {
		return false
	}
	for _, name := range sortedGroups(d) {
		if d.Group(name).AwaitsPromotion() && unpromotable(tx, d, name) != "" {
			return false
		}
	}
	return true
}

// promote makes the canaries of groups ordinary allocations: from then on they replace the old ones.
func promote(tx *WriteTx, d *structs.Deployment, groups []string, now int64) {
	d = changeDeployment(tx, d, now, func(d *structs.Deployment) {
		for _, name := range groups {
			s := d.TaskGroups[name]
			s.Promoted = s.Promoted || s.AwaitsPromotion()
			extendDeadline(d, s, now)
		}

		d.StatusDescription = d.DefaultDescription()
	})

	for _, name := range groups {
		for _, id := range d.Group(name).PlacedCanaries {
			old := Alloc(tx, id)
			if old == nil || !old.DeploymentStatus.IsCanary() {
				continue
			}

			a := old.Copy()
			status := *old.DeploymentStatus
			status.Canary = false
			status.ModifyIndex = tx.Index
			a.DeploymentStatus = &status
			if g := groupOf(tx, a); g != nil && g.HasServices() {
				a.AllocModifyIndex = tx.Index // its node changes the tags of its services
			}

			putAlloc(tx, old, a)
		}
	}
}

// DeploymentPromote promotes the healthy canaries of some groups of a deployment, or of all that have some.
func DeploymentPromote(tx *WriteTx, p *structs.DeploymentPromoteRequest) error {
	d := Deployment(tx, p.DeploymentID)
	if d == nil {
		return structs.NotFoundf("there is no deployment %q", p.DeploymentID)
	}

	if !d.Active() {
		return hasEnded(d)
	}

	groups, err := promotedGroups(tx, d, p)
	if err != nil {
		return err
	}

	promote(tx, d, groups, p.Now)
	j := Job(tx, d.Namespace, d.JobID)
	if j != nil {
		putGivenEval(tx, p.Eval, j, p.Now)
	}

	return nil
}

// promotedGroups returns the groups of a request, which all have healthy canaries.
func promotedGroups(
	tx Reader, d *structs.Deployment, p *structs.DeploymentPromoteRequest,
) (groups []string, err error) {
	for _, name := range p.Groups {
		if !p.All && d.Group(name) == nil {
			return nil, structs.Invalidf("deployment %q has no group %q", d.ID, structs.Cut(name, structs.MaxQuoted))
		}
	}

	for _, name := range sortedGroups(d) {
		if !p.All && !slices.Contains(p.Groups, name) || !d.Group(name).AwaitsPromotion() {
			continue
		}

		why := unpromotable(tx, d, name)
		if why != "" {
			return nil, structs.Preconditionf("deployment %q cannot be promoted: %s", d.ID, why)
		}

		groups = append(groups, name)
	}

	if len(groups) == 0 {
		return nil, structs.Preconditionf("deployment %q has no canaries to promote", d.ID)
	}

	return groups, nil
}

// DeploymentHealth sets the health of allocations of a deployment as an operator has decided it. An unhealthy
// one fails the deployment.
func DeploymentHealth(tx *WriteTx, p *structs.DeploymentHealthRequest) error {
	d := Deployment(tx, p.DeploymentID)
	if d == nil {
		return structs.NotFoundf("there is no deployment %q", p.DeploymentID)
	}

	if !d.Active() {
		return hasEnded(d)
	}

	// All are checked before the first one changes: an entry with an error has changed nothing.
	for _, id := range slices.Concat(p.HealthyAllocationIDs, p.UnhealthyAllocationIDs) {
		a := Alloc(tx, id)
		if a == nil || a.DeploymentID != d.ID {
			return structs.Invalidf("deployment %q has no allocation %q", d.ID, structs.Cut(id, structs.MaxQuoted))
		}
	}

	setHealth(tx, p.HealthyAllocationIDs, true, p.Now)
	setHealth(tx, p.UnhealthyAllocationIDs, false, p.Now)

	// setHealth has changed the counts in the row.
	d = Deployment(tx, d.ID)
	if len(p.UnhealthyAllocationIDs) > 0 {
		failDeployment(tx, d, structs.DeploymentFailedByAlloc, p.Now)
	} else {
		promoteAutomatically(tx, d, p.Now)
	}

	j := Job(tx, d.Namespace, d.JobID)
	if j != nil {
		putGivenEval(tx, p.Eval, j, p.Now)
	}

	return nil
}

// setHealth sets the health of allocations that exist, as the caller has checked.
func setHealth(tx *WriteTx, ids []string, healthy bool, now int64) {
	for _, id := range ids {
		old := Alloc(tx, id)
		a := old.Copy()
		a.DeploymentStatus = decidedHealth(tx, old.DeploymentStatus, healthy, now)
		a.ModifyTime = now
		putAlloc(tx, old, a)
	}
}
