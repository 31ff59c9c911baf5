package feasible

import (
	"berth/scheduler/rejects"
	"berth/state"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/quota"
)

// quotaUse is the quota of the job's namespace as it will be used with the plan so far. nil bounds nothing.
type quotaUse struct {
	spec   *quota.Spec
	used   quota.Amounts // before the plan
	change quota.Amounts // by the plan
	memo   quota.Memo
}

func newQuotaUse(tx *state.ReadTx, ns string) *quotaUse {
	s := namespace.QuotaOf(tx, ns)
	if s == nil {
		return nil
	}
	return &quotaUse{
		spec:   s,
		used:   namespace.QuotaUsed(tx, s.Name),
		change: quota.Amounts{},
	}
}

// count adds an allocation that the plan places, or takes one away that it stops. Allocations of other
// namespaces may have the same quota.
func (q *quotaUse) count(tx state.Reader, a *structs.Allocation, times int64) {
	if q != nil && !a.Terminal() && namespace.NamesQuota(tx, a.Namespace, q.spec.Name) {
		q.change.AddAll(q.memo.OfAlloc(a), times)
	}
}

// countNew adds the volumes that are created for an allocation of the plan.
func (q *quotaUse) countNew(p *Outlook, uses []VolumeUse) {
	if q == nil {
		return
	}
	for _, amounts := range newVolumes(p, uses) {
		q.change.AddAll(amounts, 1)
	}
}

// rejection returns the rejection of an allocation that asks for amounts, nil if it has place. In its figures
// the use includes the plan, and what is asked is the allocation's alone.
func (q *quotaUse) rejection(asks ...quota.Amounts) *rejects.Rejection {
	excess := quota.Exceeds(q.spec, q.used, append(asks, q.change)...)
	if excess == nil {
		return nil
	}
	excess.Plan(q.change)
	return &rejects.Rejection{
		Filter: rejects.FilterQuota,
		Reason: excess.String(),
		Keys:   []string{quota.UnblockKey(q.spec.Name)},
	}
}

// QuotaRejection returns the rejection of an allocation by the quota of the namespace, nil if it has place.
// Which devices the allocation would get depends on the node: see devicesWithinQuota.
func QuotaRejection(p *Outlook, d *Demand) *rejects.Rejection {
	if p.quota == nil {
		return nil
	}
	asks := append(newVolumes(p, d.Uses), p.quota.memo.OfResources(d.Group.Kept))
	return p.quota.rejection(asks...)
}

// QuotaName returns the name of the quota of the namespace, "" for none.
func QuotaName(p *Outlook) string {
	if p.quota == nil {
		return ""
	}
	return p.quota.spec.Name
}

// devicesWithinQuota checks that the quota has place for the devices that the node would give.
func devicesWithinQuota(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	if p.quota == nil || len(d.Group.devices) == 0 || !quota.BoundsDevices(p.quota.spec) {
		return nil
	}
	choice, _ := chooseDevices(d.Group.devices, v)
	return p.quota.rejection(quota.OfDevices(choice.devices))
}
