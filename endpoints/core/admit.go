package core

import (
	"context"
	"slices"

	"berth/endpoints/rights"
	"berth/internal/admit"
	"berth/internal/mvcc"
	"berth/state"
)

// Admit decides about the objects that a request wants to store, by the admission rules. The context is that
// of the request: it tells who the caller is.
func (s *Server) Admit(ctx context.Context, tx mvcc.Reader, objects ...admit.Input) (admit.Verdict, error) {
	rules := slices.Collect(state.AdmissionRules(tx))
	if len(rules) == 0 {
		return admit.Verdict{}, nil
	}

	caller := CallerSeen(tx, s.Gate.CallerOf(ctx, tx))
	for i := range objects {
		objects[i].Caller = caller
	}
	return s.Rules.Decide(ctx, rules, objects...)
}

// CallerSeen returns what an expression sees of a caller.
func CallerSeen(tx mvcc.Reader, c rights.Caller) admit.Caller {
	seen := admit.Caller{Management: c.ACL != nil && c.ACL.IsManagement()}
	if c.Token == nil {
		return seen
	}

	seen.Accessor = c.Token.AccessorID
	seen.Name = c.Token.Name
	for _, p := range state.PoliciesOf(tx, c.Token) {
		seen.Policies = append(seen.Policies, p.Name)
	}
	return seen
}
