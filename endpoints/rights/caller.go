package rights

import (
	"cmp"
	"context"

	"berth/internal/auditlog"
	"berth/internal/mvcc"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// ForPeople returns a caller for the requests of people and tools, as by the HTTP API. A request
// without a token says so: one without any secret would be one of the agent for itself. It also has the
// origin that the handler of the API has noted, for the audit log.
func ForPeople(c rpc.Caller) rpc.Caller { return ofPeople{c} }

type ofPeople struct{ caller rpc.Caller }

func (c ofPeople) Call(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case interface{ Query() *structs.QueryOptions }:
		q := r.Query()
		q.AuthToken = cmp.Or(q.AuthToken, access.Anonymous)
		q.Origin = auditlog.OriginFrom(ctx)
	case interface{ Write() *structs.WriteOptions }:
		w := r.Write()
		w.AuthToken = cmp.Or(w.AuthToken, access.Anonymous)
		w.Origin = auditlog.OriginFrom(ctx)
	}
	return c.caller.Call(ctx, method, req, resp)
}

// Policies returns the policies of a caller, by name: of its token and roles, or of its job.
func (c Caller) Policies(tx mvcc.Reader) []*access.Policy {
	switch {
	case c.Identity != nil:
		return state.PoliciesOfWorkload(tx, c.Identity.Workload)
	case c.Token != nil:
		return state.PoliciesOf(tx, c.Token)
	}
	return nil
}
