package access

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"berth/internal/idtoken"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/access"
)

// signOrder is an identity that a node may have.
type signOrder struct {
	claims    *idtoken.Claims
	algorithm string
}

// order returns the claims of an identity that a node asks for, or the reason for which it may not have it.
func (p Identities) order(tx *state.ReadTx, nodeID string, w access.WantedIdentity) (*signOrder, error) {
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
	wanted, service := findWorkload(job.Group(a.TaskGroup), w)
	if w.Kind == access.IdentityOfVolume {
		wanted = findToken(tx, a, job.Group(a.TaskGroup), w)
	}
	if wanted == nil {
		return nil, structs.NotFoundf("group %q has no %s %q with an identity %q", a.TaskGroup,
			structs.Cut(w.Kind, structs.MaxQuoted), structs.Cut(w.Workload, structs.MaxQuoted),
			structs.Cut(w.Name, structs.MaxQuoted))
	}

	from, until := p.span(tx)
	ttl := min(cmp.Or(wanted.TTL, structs.DefaultIdentityTTL), access.MaxIdentityTTL)
	subject := []string{p.Region, a.Namespace, claimedJob(job), a.TaskGroup, w.Workload, w.Name}
	if w.Kind == access.IdentityOfVolume {
		// No task and no service has an empty name.
		subject = append(subject[:4], "", "csi-"+w.Workload)
	}
	c := &idtoken.Claims{
		Claims: jwt.Claims{
			Issuer:    p.Issuer,
			Subject:   strings.Join(subject, ":"),
			Audience:  wanted.Audience,
			NotBefore: jwt.NewNumericDate(from),
			IssuedAt:  jwt.NewNumericDate(from),
			ID:        structs.NewID(),
		},
		Namespace: a.Namespace,
		JobID:     claimedJob(job),
		AllocID:   a.ID,
	}
	if w.Kind != access.IdentityOfTask || !structs.IsEndlessIdentity(wanted) {
		c.Expiry = jwt.NewNumericDate(until.Add(ttl))
	}
	switch w.Kind {
	case access.IdentityOfTask:
		c.Task = w.Workload
		v := job.Group(a.TaskGroup).Task(w.Workload).Vault
		if v != nil && w.Name == structs.VaultIdentity {
			c.VaultRole = v.Role
			c.VaultNamespace = v.Namespace
		}
	case access.IdentityOfService:
		c.Service = offeredName(a, *service)
	}
	return &signOrder{claims: c, algorithm: p.algorithmFor(wanted.Audience)}, nil
}

// span returns the time from which a token is good, and the one from which its time to live counts. They
// differ if the clock of this leader is wrong: the token is good once another leads, or the clock is right.
func (p Identities) span(tx *state.ReadTx) (from, until time.Time) {
	wall := p.Now().UnixNano()
	return time.Unix(0, clustertime.Earlier(tx, wall)), time.Unix(0, clustertime.Later(tx, wall))
}

// claimedJob is the job that claims and policies name: the parent of a dispatched or periodic job.
func claimedJob(j *structs.Job) string { return cmp.Or(j.ParentID, j.ID) }

// algorithmFor returns the algorithm for an audience. Tokens that the servers alone verify have EdDSA.
func (p Identities) algorithmFor(audience []string) string {
	if len(audience) == 1 && audience[0] == structs.DefaultAudience {
		return access.KeyEdDSA
	}
	return p.Algorithm
}

// findWorkload returns an identity of a group, nil if there is none, with the service that has it, nil for a
// task's.
func findWorkload(
	g *structs.TaskGroup, w access.WantedIdentity,
) (found *structs.WorkloadIdentity, service *structs.OwnedService) {
	switch w.Kind {
	case access.IdentityOfTask:
		t := g.Task(w.Workload)
		if t != nil {
			found = structs.FindIdentity(t, w.Name)
		}
	case access.IdentityOfService:
		for s := range g.AllServices() {
			if s.Name == w.Workload && s.Identity != nil && s.Identity.Name == w.Name {
				return s.Identity, &s
			}
		}
	}
	return found, nil
}

// offeredName returns the name of a service of an allocation. Its node has replaced the placeholders in it.
// Others believe the name, so the rest of what the node reports must be as the job has it.
func offeredName(a *structs.Allocation, s structs.OwnedService) string {
	for _, i := range a.Services {
		if i.ID == s.InstanceID(a.ID, s.Owner) && mayBecome(s.Name, i.ServiceName) {
			return i.ServiceName
		}
	}
	return s.Name
}

// runtimeReferences are the parts of a name that a node replaces.
var runtimeReferences = regexp.MustCompile(`\$\{[^}]*\}`)

// mayBecome reports whether the name of a service in a job can have become another one by the replacement of
// its placeholders.
func mayBecome(written, replaced string) bool {
	parts := runtimeReferences.Split(written, -1)
	for i, text := range parts {
		parts[i] = regexp.QuoteMeta(text)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(replaced)
}
