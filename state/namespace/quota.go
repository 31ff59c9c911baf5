package namespace

import (
	"fmt"
	"iter"
	"slices"

	"berth/internal/codec"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// maxQuotas bounds the rows of the table.
const maxQuotas = 10_000

// Quota returns a quota, nil if there is none.
func Quota(tx mvcc.Reader, name string) *quota.Spec { return schema.Quotas.Get(tx, name) }

// Quotas yields the quotas by name.
func Quotas(tx mvcc.Reader) iter.Seq[*quota.Spec] { return schema.Quotas.Scan(tx) }

// QuotaOf returns the quota that a namespace names, nil if it names none.
func QuotaOf(tx mvcc.Reader, namespace string) *quota.Spec {
	use := schema.QuotaUses.Get(tx, namespace)
	if use == nil {
		return nil
	}
	return schema.Quotas.Get(tx, use.Quota)
}

// NamesQuota reports whether a namespace names a quota.
func NamesQuota(tx mvcc.Reader, namespace, name string) bool {
	use := schema.QuotaUses.Get(tx, namespace)
	return use != nil && use.Quota == name
}

// QuotaUsed returns what all namespaces that name a quota have of it.
func QuotaUsed(tx mvcc.Reader, name string) quota.Amounts {
	all := quota.Amounts{}
	for use := range schema.UsesByQuota.Scan(tx, name) {
		all.AddAll(use.Amounts, 1)
	}
	return all
}

// OfQuota returns the names of the namespaces that name a quota, sorted.
func OfQuota(tx mvcc.Reader, name string) []string {
	var names []string
	for n := range schema.NamespacesByQuota.Scan(tx, name) {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// QuotaPut creates or replaces a quota. The evaluations that wait for it become pending. Lower bounds end
// nothing.
func QuotaPut(tx *mvcc.WriteTx, p *quota.SpecPutRequest) error {
	if p.Quota == nil {
		return structs.Invalidf("Quota: nothing is given; expected the quota")
	}
	err := p.Quota.Validate()
	if err != nil {
		return err
	}

	s := p.Quota.Copy()
	old := schema.Quotas.Get(tx, s.Name)
	if old == nil && schema.Quotas.Len(tx) >= maxQuotas {
		return structs.Preconditionf("there are %d quotas, the most that are stored; delete some of them first",
			maxQuotas)
	}

	if old != nil {
		s.Indexes = old.Indexes
		if codec.SameBytes(old, s) {
			return nil
		}
	}
	schema.Quotas.Put(tx, s)
	unblock.KeyOnly(tx, quota.UnblockKey(s.Name))
	return nil
}

// QuotaDelete deletes a quota that no namespace names.
func QuotaDelete(tx *mvcc.WriteTx, p *quota.SpecDeleteRequest) error {
	s := schema.Quotas.Get(tx, p.Name)
	if s == nil {
		return NoQuota(p.Name)
	}
	users := OfQuota(tx, p.Name)
	if len(users) > 0 {
		return structs.Preconditionf("quota %q bounds %d namespaces, such as %q; take it from them first: "+
			"berth namespace apply -quota \"\" %s", p.Name, len(users), users[0], users[0])
	}
	schema.Quotas.Delete(tx, s)

	// The record of the key stays: a plan from before the last namespace left may still wait for the quota.
	unblock.KeyOnly(tx, quota.UnblockKey(s.Name))
	return nil
}

// NoQuota is the error for a quota that does not exist.
func NoQuota(name string) error {
	return structs.NotFoundf("there is no quota %q", structs.Cut(name, structs.MaxQuoted))
}

// checkQuotaExists returns an error if a namespace names a quota that does not exist.
func checkQuotaExists(tx mvcc.Reader, n *cluster.Namespace) error {
	if n.Quota != "" && schema.Quotas.Get(tx, n.Quota) == nil {
		return structs.Preconditionf("namespace %q: there is no quota %q; create it: berth quota apply FILE",
			n.Name, structs.Cut(n.Quota, structs.MaxQuoted))
	}
	return nil
}

// QuotaFell unblocks the evaluations that wait for the quota of a namespace, because its use has fallen.
func QuotaFell(tx *mvcc.WriteTx, namespace string) {
	use := schema.QuotaUses.Get(tx, namespace)
	if use != nil {
		unblock.KeyOnly(tx, quota.UnblockKey(use.Quota))
	}
}

// followQuota unblocks the evaluations for which a change of the quota of a namespace matters: they wait for
// the former quota, in this namespace and in others. before or now may be nil.
func followQuota(tx *mvcc.WriteTx, before, now *cluster.Namespace) {
	if before == nil || before.Quota == "" || now != nil && now.Quota == before.Quota {
		return
	}
	unblock.KeyOnly(tx, quota.UnblockKey(before.Quota))
}

// CountPlaced keeps the use for new allocations, which are of one namespace.
func CountPlaced(tx *mvcc.WriteTx, placed []*structs.Allocation) {
	if len(placed) == 0 || !schema.QuotaUses.Has(tx, placed[0].Namespace) {
		return
	}
	all := quota.Amounts{}
	var memo quota.Memo
	for _, a := range placed {
		all.AddAll(memo.OfAlloc(a), 1)
	}
	schema.ChangeUse(tx, placed[0].Namespace, all, 1)
}

// CountQuotaUses counts the use of all namespaces with a quota after a snapshot file was loaded.
func CountQuotaUses(tx *mvcc.LoadTx) {
	for n := range schema.Namespaces.Scan(tx) {
		if n.Quota != "" {
			schema.QuotaUses.Insert(tx, &schema.NamespaceUse{
				Namespace: n.Name,
				Quota:     n.Quota,
				Amounts:   schema.CountUse(tx, n.Name),
			})
		}
	}
}

// CheckQuotaUses checks that the use of each namespace with a quota is the sum over its rows.
func CheckQuotaUses(c *schema.Report) {
	counted := map[string]string{}
	for n := range schema.Namespaces.Scan(c) {
		if n.Quota != "" {
			counted[n.Name] = n.Quota + " " + fmt.Sprint(schema.CountUse(c, n.Name))
		}
	}
	kept := map[string]string{}
	for use := range schema.QuotaUses.Scan(c) {
		kept[use.Namespace] = use.Quota + " " + fmt.Sprint(use.Amounts)
	}
	schema.CheckCounts(c, "use of namespace", counted, kept)
}

// CheckQuotas checks that each quota is valid, and that the quotas of namespaces exist.
func CheckQuotas(c *schema.Report) {
	for s := range schema.Quotas.Scan(c) {
		err := s.Validate()
		c.Want(err == nil, "quota %s is invalid: %v", s.Name, err)
	}
	for n := range schema.Namespaces.Scan(c) {
		c.Want(checkQuotaExists(c, n) == nil, "namespace %s: quota %s is gone", n.Name, n.Quota)
	}
}

// QuotaUsage returns the use of a quota as users see it.
func QuotaUsage(tx mvcc.Reader, s *quota.Spec) *quota.Usage {
	u := &quota.Usage{
		Name:       s.Name,
		Used:       map[string]*quota.Limit{},
		Namespaces: OfQuota(tx, s.Name),
		Indexes:    s.Indexes,
	}

	// An answer is as new as the newest of its rows, so that clients see a change of the use.
	for use := range schema.UsesByQuota.Scan(tx, s.Name) {
		u.ModifyIndex = max(u.ModifyIndex, use.ModifyIndex)
	}
	for _, l := range s.Limits {
		u.Used[l.Key()] = quota.Show(l, QuotaUsed(tx, s.Name))
	}
	return u
}
