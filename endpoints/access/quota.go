package access

import (
	"context"
	"slices"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/endpoints/rights"
	"berth/fsm"
	"berth/state"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/quota"
)

// Quotas serves the methods of quotas: their specifications and their use.
type Quotas struct{ *core.Server }

// QuotaSeen is the right of the lists: of each quota the right to read it.
var QuotaSeen = rights.Seen("quota: read or any right in a namespace that names the quota",
	func(q rights.Question, _, name string) bool { return readsQuota(q, name) })

// QuotaRead is the right to read a quota and its use.
var QuotaRead = rights.Where("quota: read or any right in a namespace that names the quota",
	func(q rights.Question) bool { return readsQuota(q, q.Req.(*quota.SpecGetRequest).Name) })

// readsQuota reports whether the caller may read a quota: a user of a namespace sees what bounds it.
func readsQuota(q rights.Question, name string) bool {
	return q.ACL.QuotaRead() || slices.ContainsFunc(namespace.OfQuota(q.Tx, name), q.ACL.SeesNamespace)
}

// List lists the quotas.
func (Quotas) List(
	tx *state.ReadTx, req *structs.QueryRequest, resp *quota.SpecListResponse,
) (err error) {
	name := func(s *quota.Spec) string { return s.Name }
	resp.Quotas, err = query.PageByName(slices.Collect(namespace.Quotas(tx)), name, req, resp)
	return err
}

// Read reads a quota.
func (Quotas) Read(
	tx *state.ReadTx, req *quota.SpecGetRequest, resp *quota.SpecGetResponse,
) error {
	resp.Quota = namespace.Quota(tx, req.Name)
	if resp.Quota == nil {
		return namespace.NoQuota(req.Name)
	}
	return nil
}

// Usages lists the use of the quotas.
func (Quotas) Usages(
	tx *state.ReadTx, req *structs.QueryRequest, resp *quota.UsageListResponse,
) (err error) {
	all := []*quota.Usage{}
	for s := range namespace.Quotas(tx) {
		all = append(all, namespace.QuotaUsage(tx, s))
	}
	name := func(u *quota.Usage) string { return u.Name }
	resp.Usages, err = query.PageByName(all, name, req, resp)
	return err
}

// Usage reads the use of a quota.
func (Quotas) Usage(
	tx *state.ReadTx, req *quota.SpecGetRequest, resp *quota.UsageGetResponse,
) error {
	s := namespace.Quota(tx, req.Name)
	if s == nil {
		return namespace.NoQuota(req.Name)
	}
	resp.Usage = namespace.QuotaUsage(tx, s)
	return nil
}

// Apply stores a quota, whose limit is for the region of the cluster.
func (p Quotas) Apply(
	ctx context.Context, req *quota.SpecPutRequest, _ *structs.Empty,
) (uint64, error) {
	if req.Quota == nil {
		return 0, structs.Invalidf("Quota: nothing is given; expected the quota")
	}

	s := req.Quota.Copy()
	s.SetRegion(p.Region)
	err := s.Validate()
	if err != nil {
		return 0, err
	}

	for _, l := range s.Limits {
		if l.Region != p.Region {
			return 0, structs.Invalidf("quota %q: the limit of region %q has no effect, because the region of "+
				"the cluster is %q; leave it out", s.Name, structs.Cut(l.Region, structs.MaxQuoted), p.Region)
		}
		l.Hash = quota.Digest(l)
	}
	return fsm.Propose(ctx, p.Raft, fsm.QuotaPut, &quota.SpecPutRequest{
		Quota:        s,
		WriteOptions: req.WriteOptions,
	})
}
