package access

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// maxTokenTTL bounds the life of a token that has an end.
const maxTokenTTL = 10 * 365 * 24 * time.Hour

// Tokens serves the methods of access control: the first token, policies, roles and tokens.
type Tokens struct {
	Store *state.Store
	Raft  fsm.Proposer
	Gate  *rights.Gate
	Name  string // of this server
	// Servers returns the modes that the configurations of the servers ask for.
	Servers func() []access.ServerMode
	// ResetFile is where root on the server that leads allows another first token: it has the index that the
	// error of Bootstrap names.
	ResetFile string
	// KeepDeleted is how long the deletion of a token is remembered.
	KeepDeleted time.Duration
	Logger      hclog.Logger
}

// OwnRows is the right of the lists of policies and roles: a management token sees all, another one sees its
// own.
var OwnRows = rights.SeenBy("any token; a management token sees all, another one its own", seesOwn)

// seesOwn reads the policies and roles of the caller once.
func seesOwn(q rights.Question) func(_, id string) bool {
	own := map[string]bool{}
	for _, p := range q.Policies(q.Tx) {
		own[p.Name] = true
	}
	if q.Token != nil {
		for _, link := range q.Token.Roles {
			if link != nil {
				own[link.ID] = true
			}
		}
	}
	return func(_, id string) bool { return q.ACL.IsManagement() || own[id] }
}

// OwnPolicy is the right to read a policy: with a management token, or the caller's own.
var OwnPolicy = rights.Where("a management token, or the policy is the caller's", readsPolicy)

func readsPolicy(q rights.Question) bool {
	return q.ACL.IsManagement() || hasPolicy(q, q.Req.(*access.NameRequest).Name)
}

// OwnRole is the right to read a role: with a management token, or the caller's own.
var OwnRole = rights.Where("a management token, or the role is the caller's", func(q rights.Question) bool {
	if q.ACL.IsManagement() || q.Token == nil {
		return q.ACL.IsManagement()
	}
	r := wantedRole(q.Tx, q.Req.(*access.RoleGetRequest))
	return r != nil && hasRole(q.Token, r.ID)
})

// OwnToken is the right to read a token: with a management token, or the caller's own.
var OwnToken = rights.Where("a management token, or the token is the caller's", func(q rights.Question) bool {
	id := q.Req.(*access.TokenGetRequest).AccessorID
	return q.ACL.IsManagement() || q.Token != nil && (id == "" || id == q.Token.AccessorID)
})

// OwnLogin is the right to delete a token: with a management token, or the caller's own if a login has made
// it. Operators have given the other tokens, so their holders cannot end them.
var OwnLogin = rights.Where("a management token, or the token is the caller's and of a login", endsOwnLogin)

func endsOwnLogin(q rights.Question) bool {
	id := q.Req.(*access.TokenDeleteRequest).AccessorID
	return q.ACL.IsManagement() || q.Token != nil && q.Token.AuthMethod != "" && id == q.Token.AccessorID
}

func hasPolicy(q rights.Question, name string) bool {
	if q.Token == nil && q.Identity == nil {
		return name == access.AnonymousPolicy
	}
	for _, p := range q.Policies(q.Tx) {
		if p.Name == name {
			return true
		}
	}
	return false
}

func hasRole(t *access.Token, id string) bool {
	for _, link := range t.Roles {
		if link != nil && link.ID == id {
			return true
		}
	}
	return false
}

// Policies lists the policies that the caller sees.
func (Tokens) Policies(
	tx *state.ReadTx, req *structs.QueryRequest, resp *access.PolicyListResponse,
) error {
	resp.Policies = []*access.PolicyStub{}
	for p := range state.Policies(tx) {
		if seesRow(req, p.Name) {
			resp.Policies = append(resp.Policies, p.Stub())
		}
	}
	return nil
}

func seesRow(req *structs.QueryRequest, id string) bool {
	return req.Sees == nil || req.Sees("", id)
}

// Policy reads a policy.
func (Tokens) Policy(
	tx *state.ReadTx, req *access.NameRequest, resp *access.PolicyGetResponse,
) error {
	resp.Policy = state.Policy(tx, req.Name)
	if resp.Policy == nil {
		return structs.NotFoundf("there is no policy %q", structs.Cut(req.Name, structs.MaxQuoted))
	}
	return nil
}

// PutPolicy stores a policy whose rules it can read.
func (p Tokens) PutPolicy(
	ctx context.Context, req *access.PolicyPutRequest, _ *structs.Empty,
) (uint64, error) {
	if req.Policy == nil {
		return 0, structs.Invalidf("there is no policy")
	}
	_, err := acl.Parse(req.Policy.Name, req.Policy.Rules)
	if err != nil {
		return 0, err
	}
	if w := req.Policy.JobACL; w != nil {
		w.Namespace = structs.NamespaceOr(w.Namespace)
	}
	return fsm.Propose(ctx, p.Raft, fsm.ACLPolicyPut, req)
}

// Roles lists the roles that the caller sees.
func (Tokens) Roles(
	tx *state.ReadTx, req *structs.QueryRequest, resp *access.RoleListResponse,
) error {
	resp.Roles = []*access.Role{}
	for r := range state.Roles(tx) {
		if seesRow(req, r.ID) {
			resp.Roles = append(resp.Roles, r)
		}
	}
	return nil
}

// Role reads a role by its ID or its name.
func (Tokens) Role(
	tx *state.ReadTx, req *access.RoleGetRequest, resp *access.RoleGetResponse,
) error {
	resp.Role = wantedRole(tx, req)
	if resp.Role == nil {
		return structs.NotFoundf("there is no role with the ID %q or the name %q",
			structs.Cut(req.ID, structs.MaxQuoted), structs.Cut(req.Name, structs.MaxQuoted))
	}
	return nil
}

func wantedRole(tx state.Reader, req *access.RoleGetRequest) *access.Role {
	if req.ID == "" {
		return state.RoleByName(tx, req.Name)
	}
	return state.Role(tx, req.ID)
}

// PutRole stores a role, and gives a new one its ID.
func (p Tokens) PutRole(
	ctx context.Context, req *access.RolePutRequest, resp *access.RolePutResponse,
) (uint64, error) {
	if req.Role == nil {
		return 0, structs.Invalidf("there is no role")
	}

	if req.Role.ID == "" {
		req.Role.ID = structs.NewID()
	} else if state.Role(p.Store.Read(), req.Role.ID) == nil {
		return 0, structs.NotFoundf("there is no role with the ID %q", structs.Cut(req.Role.ID, structs.MaxQuoted))
	}
	err := state.CheckRole(req.Role)
	if err != nil {
		return 0, err
	}

	index, err := fsm.Propose(ctx, p.Raft, fsm.ACLRolePut, req)
	if err != nil {
		return 0, err
	}
	resp.Role = state.Role(p.Store.Read(), req.Role.ID)
	return index, nil
}
