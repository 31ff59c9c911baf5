package schema

import (
	"berth/internal/mvcc"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// Quotas has the specifications of quotas by name.
var Quotas = mvcc.NewTable("quotas", func(s *quota.Spec) mvcc.Key {
	return mvcc.KeyOf(s.Name)
})

// NamespaceUse has the use of a namespace that names a quota. Other namespaces have no row, so that their
// changes cost one look-up. The use of a quota is the sum over the rows that name it.
type NamespaceUse struct {
	structs.Indexes
	Namespace, Quota string
	Amounts          quota.Amounts
}

var (
	// QuotaUses has the use of the namespaces that name a quota, by namespace. ChangeUse and followQuota
	// alone write it.
	QuotaUses = mvcc.NewTable("quota_uses", func(u *NamespaceUse) mvcc.Key {
		return mvcc.KeyOf(u.Namespace)
	}).Computed()

	// UsesByQuota has the uses by quota.
	UsesByQuota = QuotaUses.Index("quota", func(u *NamespaceUse) mvcc.Key {
		return mvcc.KeyOf(u.Quota)
	})
)

// ChangeUse adds amounts, a number of times, to the use of a namespace, if it names a quota.
func ChangeUse(tx *mvcc.WriteTx, namespace string, amounts quota.Amounts, times int64) {
	QuotaUses.Edit(tx, func(before *NamespaceUse) *NamespaceUse {
		if before == nil {
			return nil
		}
		after := *before
		after.Amounts = before.Amounts.Copy()
		after.Amounts.AddAll(amounts, times)
		return &after
	}, namespace)
}

// recountAllocUse keeps the use when an allocation changes. before or now may be nil.
func recountAllocUse(tx *mvcc.WriteTx, before, now *structs.Allocation) {
	// Equal values of two rows are one value: see package sharing. Most changes end here.
	if before != nil && now != nil && before.Terminal() == now.Terminal() &&
		before.Resources == now.Resources && len(before.Devices)+len(now.Devices) == 0 {
		return
	}

	a := now
	if a == nil {
		a = before
	}
	if a != nil && QuotaUses.Has(tx, a.Namespace) {
		replaceUse(tx, a.Namespace, quota.OfAlloc(before), quota.OfAlloc(now))
	}
}

// recountVolumeUse keeps the use when a volume changes. before or now may be nil.
func recountVolumeUse(tx *mvcc.WriteTx, before, now *structs.CSIVolume) {
	v := now
	if v == nil {
		v = before
	}
	if v != nil && QuotaUses.Has(tx, v.Namespace) {
		replaceUse(tx, v.Namespace, quota.OfVolume(before), quota.OfVolume(now))
	}
}

// replaceUse replaces what a row had of a quota by what it has. No row changes its namespace.
func replaceUse(tx *mvcc.WriteTx, namespace string, was, is quota.Amounts) {
	if was.Equal(is) {
		return
	}
	change := is.Copy()
	change.AddAll(was, -1)
	ChangeUse(tx, namespace, change, 1)
}

// followQuota begins and ends the count of the use of a namespace when its quota changes. The count reads
// all allocations and volumes of the namespace once.
func followQuota(tx *mvcc.WriteTx, before, now *cluster.Namespace) {
	switch {
	case now == nil || now.Quota == "":
		if before != nil && before.Quota != "" {
			QuotaUses.Delete(tx, &NamespaceUse{Namespace: before.Name})
		}
	case before == nil || before.Quota != now.Quota:
		QuotaUses.Put(tx, &NamespaceUse{
			Namespace: now.Name,
			Quota:     now.Quota,
			Amounts:   CountUse(tx, now.Name),
		})
	}
}

// CountUse reads the allocations and volumes of a namespace, and returns what they have of a quota.
func CountUse(tx mvcc.Reader, namespace string) quota.Amounts {
	all := quota.Amounts{}
	for a := range AllocsByJob.Scan(tx, namespace) {
		all.AddAll(quota.OfAlloc(a), 1)
	}
	for v := range Volumes.Scan(tx, namespace) {
		all.AddAll(quota.OfVolume(v), 1)
	}
	return all
}
