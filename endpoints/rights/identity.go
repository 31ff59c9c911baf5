package rights

import (
	"time"

	"berth/internal/idtoken"
	"berth/internal/mvcc"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// Identity is the workload that a signed token names. Its allocation runs.
type Identity struct {
	AllocID string
	// Workload has the namespace, the job without its children, the group, and the task, "" for a service.
	Workload access.JobACL
	Service  string // "" for a task
	ends     time.Time
}

// String names the workload in messages and logs.
func (i *Identity) String() string {
	if i.Service != "" {
		return "the identity of service " + i.Service + " of allocation " + i.AllocID
	}
	return "the identity of task " + i.Workload.Task + " of allocation " + i.AllocID
}

// verify returns the claims of a token. The error is of kind denied. The claims are nil unless a key of the
// cluster has signed them: the claims of a token that has ended come with an error.
func (g *Gate) verify(tx mvcc.Reader, token string) (*idtoken.Claims, error) {
	v := idtoken.Verifier{
		Key: func(id string) (algorithm string, public []byte, ok bool) {
			k := trust.SigningKey(tx, id)
			if k == nil {
				return "", nil, false
			}
			return k.Algorithm, k.PublicKey, true
		},
		Issuer: g.config.Issuer,
		Now:    g.config.Now(),
	}
	return v.Verify(token)
}

// identify returns the workload of a token. The error is of kind denied. It reads the row of the allocation,
// so a blocking read that asks again wakes when the allocation ends.
func (g *Gate) identify(tx mvcc.Reader, token string) (*Identity, error) {
	c, err := g.verify(tx, token)
	if err != nil {
		return nil, err
	}

	a := state.Alloc(tx, c.AllocID)
	if a == nil || a.Terminal() || a.Namespace != c.Namespace {
		return nil, structs.Deniedf("allocation %s has ended, and with it the identities of its workloads",
			structs.Cut(c.AllocID, structs.MaxQuoted))
	}
	return &Identity{
		AllocID: a.ID,
		Workload: access.JobACL{
			Namespace: a.Namespace,
			JobID:     c.JobID,
			Group:     a.TaskGroup,
			Task:      c.Task,
		},
		Service: c.Service,
		ends:    c.Ends(),
	}, nil
}

// RunsOn reports whether a secret is the signed token of a workload that runs on a node, and the gate decides
// on what it gives.
func (g *Gate) RunsOn(tx mvcc.Reader, secret, nodeID string) bool {
	if !g.Enforces() || len(secret) > maxSecret || !idtoken.IsToken(secret) {
		return false
	}
	id, err := g.identify(tx, secret)
	return err == nil && state.Alloc(tx, id.AllocID).NodeID == nodeID
}

// resolveIdentity returns the caller with a signed token: the policies of its job, and what each task has.
func (g *Gate) resolveIdentity(tx mvcc.Reader, token string) (Caller, error) {
	id, err := g.identify(tx, token)
	if err != nil {
		return Caller{}, err
	}

	w := id.Workload
	given := g.merge(state.PoliciesOfWorkload(tx, w))
	paths := access.VariablePathsOfTask(w.JobID, w.Group, w.Task)
	return Caller{Identity: id, ACL: given.ForWorkload(w.Namespace, paths), Ends: id.ends}, nil
}

// signed names the workload of a token for the audit log, nil unless a key of the cluster has signed it. The
// token, or its allocation, may have ended.
func (g *Gate) signed(tx mvcc.Reader, token string) *access.Identity {
	c, _ := g.verify(tx, token)
	if c == nil {
		return nil
	}

	is := &access.Identity{
		AllocID:   c.AllocID,
		Namespace: c.Namespace,
		JobID:     c.JobID,
		Task:      c.Task,
		Service:   c.Service,
	}
	a := state.Alloc(tx, c.AllocID)
	if a != nil && a.Namespace == c.Namespace {
		is.Group = a.TaskGroup
	}
	return is
}
