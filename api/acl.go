package api

import (
	"context"
	"time"

	"berth/structs"
	"berth/structs/access"
)

var aclBootstrap = route(put, "/v1/acl/bootstrap",
	serveMethod(access.Bootstrap, bindBootstrap, (*access.TokenPutResponse).Open))

// bootstrapBody may have the secret of the first token.
type bootstrapBody struct {
	BootstrapSecret string
}

func bindBootstrap(c *call, req *access.BootstrapRequest) error {
	var b bootstrapBody
	err := c.decodeOptionalBody(&b)
	req.Secret = b.BootstrapSecret
	return err
}

// BootstrapACL makes the first management token. secret is a UUID, or "" for one that the leader draws.
func BootstrapACL(ctx context.Context, c *Client, secret string) (*access.OpenToken, error) {
	return aclBootstrap.send(ctx, c, request{body: bootstrapBody{secret}})
}

var aclPolicyList = route(get, "/v1/acl/policies",
	serveMethod(access.PolicyList, nil,
		func(a *access.PolicyListResponse) []*access.PolicyStub { return a.Policies }))

// The dialect has the policies of the caller here, too.
var _ = handle(get, "/v1/acl/policy/self", aclPolicyList.route.serve)

// Policies lists the access policies that the caller may see, without their rules.
func Policies(ctx context.Context, c *Client, q *Query) ([]*access.PolicyStub, *Meta, error) {
	return aclPolicyList.fetch(ctx, c, "", q)
}

var aclPolicyGet = route(get, "/v1/acl/policy/{id}",
	serveMethod(access.PolicyGet,
		withID(func(q *access.NameRequest, id string) { q.Name = id }),
		func(a *access.PolicyGetResponse) *access.Policy { return a.Policy }))

// Policy reads an access policy.
func Policy(ctx context.Context, c *Client, name string) (*access.Policy, error) {
	p, _, err := aclPolicyGet.fetch(ctx, c, name, nil)
	return p, err
}

var aclPolicyPut = route(put, "/v1/acl/policy/{id}",
	serveMethod(access.PolicyPut, bindPolicy, whole))

func bindPolicy(c *call, req *access.PolicyPutRequest) error {
	req.Policy = &access.Policy{}
	err := c.decodeBody(req.Policy)
	if err == nil {
		err = c.sameID("policy", req.Policy.Name)
	}
	req.Policy.Name = c.id()
	return err
}

// PutPolicy creates or replaces an access policy.
func PutPolicy(ctx context.Context, c *Client, p *access.Policy) error {
	return aclPolicyPut.route.exec(ctx, c, request{id: p.Name, body: p})
}

var aclPolicyDelete = route(remove, "/v1/acl/policy/{id}",
	serveMethod(access.PolicyDelete,
		withID(func(q *access.PolicyDeleteRequest, id string) { q.Name = id }), whole))

// DeletePolicy deletes an access policy.
func DeletePolicy(ctx context.Context, c *Client, name string) error {
	return aclPolicyDelete.route.exec(ctx, c, request{id: name})
}

var aclRoleList = route(get, "/v1/acl/roles",
	serveMethod(access.RoleList, nil,
		func(a *access.RoleListResponse) []*access.Role { return a.Roles }))

// Roles lists the roles that the caller may see.
func Roles(ctx context.Context, c *Client, q *Query) ([]*access.Role, *Meta, error) {
	return aclRoleList.fetch(ctx, c, "", q)
}

var aclRoleGet = route(get, "/v1/acl/role/{id}",
	serveMethod(access.RoleGet,
		withID(func(q *access.RoleGetRequest, id string) { q.ID = id }),
		func(a *access.RoleGetResponse) *access.Role { return a.Role }))

// Role reads a role by its ID.
func Role(ctx context.Context, c *Client, id string) (*access.Role, error) {
	r, _, err := aclRoleGet.fetch(ctx, c, id, nil)
	return r, err
}

var aclRoleByName = route(get, "/v1/acl/role/name/{id}",
	serveMethod(access.RoleGet,
		withID(func(q *access.RoleGetRequest, name string) { q.Name = name }),
		func(a *access.RoleGetResponse) *access.Role { return a.Role }))

// RoleByName reads a role by its name.
func RoleByName(ctx context.Context, c *Client, name string) (*access.Role, error) {
	r, _, err := aclRoleByName.fetch(ctx, c, name, nil)
	return r, err
}

var (
	aclRoleCreate = route(put, "/v1/acl/role", serveMethod(access.RolePut, bindRole, roleOf))
	aclRoleUpdate = route(put, "/v1/acl/role/{id}", serveMethod(access.RolePut, bindRole, roleOf))
)

func roleOf(a *access.RolePutResponse) *access.Role { return a.Role }

// bindRole takes the ID of the path. A role that is created has none.
func bindRole(c *call, req *access.RolePutRequest) error {
	req.Role = &access.Role{}
	err := c.decodeBody(req.Role)
	if err != nil {
		return err
	}

	if c.id() == "" && req.Role.ID != "" {
		return structs.Invalidf("ID: expected none for a new role; the path of a change has it")
	}
	err = c.sameID("role", req.Role.ID)
	req.Role.ID = c.id()
	return err
}

// PutRole creates a role, or replaces the one with the ID.
func PutRole(ctx context.Context, c *Client, r *access.Role) (*access.Role, error) {
	if r.ID == "" {
		return aclRoleCreate.send(ctx, c, request{body: r})
	}
	return aclRoleUpdate.send(ctx, c, request{id: r.ID, body: r})
}

var aclRoleDelete = route(remove, "/v1/acl/role/{id}",
	serveMethod(access.RoleDelete,
		withID(func(q *access.RoleDeleteRequest, id string) { q.ID = id }), whole))

// DeleteRole deletes a role.
func DeleteRole(ctx context.Context, c *Client, id string) error {
	return aclRoleDelete.route.exec(ctx, c, request{id: id})
}

var aclTokenList = route(get, "/v1/acl/tokens",
	serveMethod(access.TokenList, bindTokenList,
		func(a *access.TokenListResponse) []*access.Token { return a.Tokens }))

// bindTokenList takes the parameter global of the dialect: all tokens or none are global in one region.
func bindTokenList(c *call, req *access.TokenListRequest) error {
	_, err := c.flag("global")
	return err
}

// Tokens lists the tokens, without their secrets.
func Tokens(ctx context.Context, c *Client, q *Query) ([]*access.Token, *Meta, error) {
	return aclTokenList.fetch(ctx, c, "", q)
}

var aclTokenGet = route(get, "/v1/acl/token/{id}",
	serveMethod(access.TokenGet,
		withID(func(q *access.TokenGetRequest, id string) { q.AccessorID = id }),
		func(a *access.TokenGetResponse) *access.Token { return a.Token }))

// Token reads a token by its accessor.
func Token(ctx context.Context, c *Client, accessor string) (*access.Token, error) {
	t, _, err := aclTokenGet.fetch(ctx, c, accessor, nil)
	return t, err
}

var aclTokenSelf = route[*access.OpenToken](get, "/v1/acl/token/self",
	func(c *call) (any, error) {
		own := serveMethod(access.TokenGet, nil, func(a *access.TokenGetResponse) *access.OpenToken {
			return &access.OpenToken{Token: *a.Token, SecretID: c.token()}
		})
		return own(c)
	})

// TokenSelf reads the token of the client, with the secret that it sends.
func TokenSelf(ctx context.Context, c *Client) (*access.OpenToken, error) {
	t, _, err := aclTokenSelf.fetch(ctx, c, "", nil)
	return t, err
}

var (
	aclTokenCreate = route(put, "/v1/acl/token",
		serveMethod(access.TokenPut, bindToken, (*access.TokenPutResponse).Open))
	aclTokenUpdate = route(put, "/v1/acl/token/{id}",
		serveMethod(access.TokenPut, bindToken, (*access.TokenPutResponse).Open))
)

// tokenBody is a token as callers write it.
type tokenBody struct {
	AccessorID     string
	Name           string
	Type           string
	Policies       []string
	Roles          []*access.Link
	Global         bool
	ExpirationTime *time.Time
	ExpirationTTL  string

	// Answers also have these fields: tools change an answer and send it back.
	SecretID   string    `json:",omitempty"`
	CreateTime time.Time `json:",omitzero"`
	structs.Indexes
}

func bindToken(c *call, req *access.TokenPutRequest) error {
	var b tokenBody
	err := c.decodeBody(&b)
	if err == nil {
		err = c.sameID("token", b.AccessorID)
	}
	if err != nil {
		return err
	}

	if c.id() == "" && b.AccessorID != "" {
		return structs.Invalidf("AccessorID: expected none for a new token; the path of a change has it")
	}
	req.Token = &access.Token{
		AccessorID: c.id(),
		Name:       b.Name,
		Type:       b.Type,
		Policies:   b.Policies,
		Roles:      b.Roles,
		Global:     b.Global,
	}
	if b.ExpirationTime != nil && !b.ExpirationTime.IsZero() {
		req.Token.ExpireTime = b.ExpirationTime.UnixNano()
	}
	if b.ExpirationTTL != "" {
		req.TTL, err = time.ParseDuration(b.ExpirationTTL)
	}
	if err != nil {
		return structs.Invalidf("ExpirationTTL is %q; expected a duration such as 8h",
			structs.Cut(b.ExpirationTTL, structs.MaxQuoted))
	}
	return nil
}

// PutToken makes a token that lives for ttl, 0 for ever, or changes the one with the accessor. Only the
// answer that makes it has the secret.
func PutToken(ctx context.Context, c *Client, t *access.Token, ttl time.Duration) (*access.OpenToken, error) {
	b := tokenBody{
		AccessorID: t.AccessorID,
		Name:       t.Name,
		Type:       t.Type,
		Policies:   t.Policies,
		Roles:      t.Roles,
		Global:     t.Global,
	}
	if ttl != 0 {
		b.ExpirationTTL = ttl.String()
	}
	if t.AccessorID == "" {
		return aclTokenCreate.send(ctx, c, request{body: b})
	}
	return aclTokenUpdate.send(ctx, c, request{id: t.AccessorID, body: b})
}

var aclTokenDelete = route(remove, "/v1/acl/token/{id}",
	serveMethod(access.TokenDelete,
		withID(func(q *access.TokenDeleteRequest, id string) { q.AccessorID = id }), whole))

// DeleteToken deletes a token.
func DeleteToken(ctx context.Context, c *Client, accessor string) error {
	return aclTokenDelete.route.exec(ctx, c, request{id: accessor})
}
