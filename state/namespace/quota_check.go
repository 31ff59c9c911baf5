package namespace

import (
	"fmt"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/quota"
)

// quotaRemedy is what an operator can do about a bound that a request exceeds.
const quotaRemedy = "delete what is not needed, or raise the bound: berth quota apply FILE"

// CheckVolumeQuota returns an error if the row of a volume would exceed a bound of the quota of its
// namespace. old is the stored row, nil for none. Outcomes of calls of plugins are stored in any case.
func CheckVolumeQuota(tx mvcc.Reader, old, v *structs.CSIVolume) error {
	s := QuotaOf(tx, v.Namespace)
	if s == nil {
		return nil
	}

	// Its plugin would choose, and might choose more than is left.
	if v.State == structs.VolumeCreating && quota.BytesOf(v) == 0 && quota.BoundsBytes(s, v) {
		return structs.Preconditionf("volume %q: quota %s bounds the bytes of volumes; give capacity_min",
			v.ID, s.Name)
	}

	change := quota.OfVolume(v)
	change.AddAll(quota.OfVolume(old), -1)
	excess := quota.Exceeds(s, QuotaUsed(tx, s.Name), change)
	if excess == nil {
		return nil
	}
	return structs.Preconditionf("volume %q: %s; %s", v.ID, excess, quotaRemedy)
}

// QuotaChange adds up what a plan changes of one quota.
type QuotaChange struct {
	tx     mvcc.Reader
	spec   *quota.Spec
	change quota.Amounts
	memo   quota.Memo
}

// NewQuotaChange returns an empty change of the quota of a namespace, nil if it names none.
func NewQuotaChange(tx mvcc.Reader, namespace string) *QuotaChange {
	s := QuotaOf(tx, namespace)
	if s == nil {
		return nil
	}
	return &QuotaChange{tx: tx, spec: s, change: quota.Amounts{}}
}

// Place adds a new allocation. ask is the demand of its group, for one without resources.
func (c *QuotaChange) Place(a *structs.Allocation, ask func() structs.Resources) {
	r := a.Resources
	if r == nil {
		r = new(ask())
	}
	c.change.AddAll(c.memo.OfResources(r), 1)
	c.change.AddAll(quota.OfDevices(a.Devices), 1)
}

// AddVolume adds a volume that the servers are to create, in place of one that they could not create.
func (c *QuotaChange) AddVolume(v *structs.CSIVolume) {
	c.change.AddAll(quota.OfVolume(v), 1)
	c.change.AddAll(quota.OfVolume(schema.Volumes.Get(c.tx, v.Namespace, v.ID)), -1)
}

// Stop takes away an allocation that the plan stops, if its namespace names the quota.
func (c *QuotaChange) Stop(a *structs.Allocation) {
	if NamesQuota(c.tx, a.Namespace, c.spec.Name) {
		c.change.AddAll(quota.OfAlloc(a), -1)
	}
}

// Rejection returns the bound that the change exceeds, with the figures, "" for none.
func (c *QuotaChange) Rejection() string {
	excess := quota.Exceeds(c.spec, QuotaUsed(c.tx, c.spec.Name), c.change)
	if excess == nil {
		return ""
	}
	return excess.String()
}

// QuotaWarning returns what a job as it is to be will lack of the quota of its namespace, "" if all of it has
// place. It counts no devices, whose groups depend on the nodes, and a job of every node once.
func QuotaWarning(tx mvcc.Reader, j *structs.Job) string {
	s := QuotaOf(tx, j.Namespace)
	if s == nil || j.Stop || j.StartsOthers() {
		return ""
	}

	change := quota.Amounts{}
	for _, g := range j.TaskGroups {
		ask := g.Ask()
		ask.MemoryMaxMB = quota.MemoryMax(g)
		count := g.Count
		if j.PerNode() {
			count = min(count, 1)
		}
		change.AddAll(quota.OfResources(&ask), int64(count))
	}
	for a := range schema.AllocsByJob.Scan(tx, j.Namespace, j.ID, schema.LiveRow) {
		own := *a
		own.Devices = nil
		change.AddAll(quota.OfAlloc(&own), -1)
	}

	excess := quota.Exceeds(s, QuotaUsed(tx, s.Name), change)
	if excess == nil {
		return ""
	}
	return fmt.Sprintf("%s; what has no place waits for it", excess)
}
