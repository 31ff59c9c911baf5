package identities

import (
	"cmp"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"berth/internal/idtoken"
	"berth/state"
	"berth/structs"
	"berth/structs/identity"
)

// order is an identity that a node may have.
type order struct {
	claims    *idtoken.Claims
	algorithm string
}

// spec is what a job says of an identity.
type spec struct {
	audience []string
	ttl      time.Duration
}

// order returns the claims of an identity that a node asks for, or the reason for which it may not have it.
func (p Procedures) order(tx *state.ReadTx, nodeID string, w identity.WantedIdentity) (*order, error) {
	a := state.Alloc(tx, w.AllocID)
	if a == nil || a.NodeID != nodeID {
		return nil, structs.NotFoundf("allocation %s is not on the node", structs.Cut(w.AllocID, structs.MaxQuoted))
	}
	if a.Terminal() {
		return nil, structs.Preconditionf("allocation %s has ended, or is to end", a.ID)
	}
	job := state.JobOf(tx, a)
	if job == nil || job.Group(a.TaskGroup) == nil {
		return nil, structs.Preconditionf("the servers do not have the job of allocation %s any more", a.ID)
	}
	s, err := find(job.Group(a.TaskGroup), w)
	if err != nil {
		return nil, err
	}

	now := p.Now()
	subject := []string{p.Region, a.Namespace, claimedJob(job), a.TaskGroup, w.Workload, w.Name}
	c := &idtoken.Claims{
		Claims: jwt.Claims{
			Issuer:    p.Issuer,
			Subject:   strings.Join(subject, ":"),
			Audience:  s.audience,
			Expiry:    jwt.NewNumericDate(now.Add(s.ttl)),
			NotBefore: jwt.NewNumericDate(now),
			IssuedAt:  jwt.NewNumericDate(now),
			ID:        structs.NewID(),
		},
		Namespace: a.Namespace,
		JobID:     claimedJob(job),
		AllocID:   a.ID,
	}
	if w.Kind == identity.KindTask {
		c.Task = w.Workload
	} else {
		c.Service = w.Workload
	}
	return &order{claims: c, algorithm: p.algorithmFor(s.audience)}, nil
}

// claimedJob is the job that claims and policies name: the parent of a dispatched or periodic job.
func claimedJob(j *structs.Job) string { return cmp.Or(j.ParentID, j.ID) }

// algorithmFor returns the algorithm for an audience. What the servers alone verify is signed with EdDSA.
func (p Procedures) algorithmFor(audience []string) string {
	if len(audience) == 1 && audience[0] == identity.DefaultAudience {
		return identity.EdDSA
	}
	return p.Algorithm
}

// find returns what a group says of an identity.
func find(g *structs.TaskGroup, w identity.WantedIdentity) (spec, error) {
	if w.Kind != identity.KindTask {
		return spec{}, structs.Invalidf("Kind is %q; expected %s",
			structs.Cut(w.Kind, structs.MaxQuoted), identity.KindTask)
	}
	t := g.Task(w.Workload)
	if t == nil || w.Name != identity.Default {
		return spec{}, structs.NotFoundf("group %q has no task %q with an identity %q", g.Name,
			structs.Cut(w.Workload, structs.MaxQuoted), structs.Cut(w.Name, structs.MaxQuoted))
	}
	return spec{audience: []string{identity.DefaultAudience}, ttl: identity.DefaultTTL}, nil
}
