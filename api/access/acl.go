// Package access has the routes of policies, roles, tokens, auth methods, logins, identities, variables,
// admission rules and quotas, each with the call of the client. Callers import it as accessapi, because the
// rows are in a package access, too.
package access

import (
	"context"
	"time"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

// table has the routes of this area.
var table api.Table

// Routes returns the routes of this area.
func Routes() []*api.Route { return table.Routes() }

var bootstrap = api.NewEndpoint(&table, api.Put, "/v1/acl/bootstrap",
	api.ServeMethod(access.Bootstrap, bindBootstrap, (*access.TokenPutResponse).Open))

// bootstrapBody may have the secret of the first token.
type bootstrapBody struct {
	BootstrapSecret string
}

func bindBootstrap(c *api.Call, req *access.BootstrapRequest) error {
	var b bootstrapBody
	err := c.DecodeOptionalBody(&b)
	req.Secret = b.BootstrapSecret
	return err
}

// Bootstrap makes the first management token. secret is a UUID, or "" for one that the leader draws.
func Bootstrap(ctx context.Context, c *api.Client, secret string) (*access.OpenToken, error) {
	return bootstrap.Send(ctx, c, api.Request{Body: bootstrapBody{secret}})
}

var (
	mode = api.NewEndpoint(&table, api.Get, "/v1/acl/mode",
		api.ServeMethod(access.ModeGet, nil, func(a *access.ModeGetResponse) *Mode {
			return &Mode{Mode: a.Mode, Server: a.Server, Here: a.Here}
		}))
	setMode = api.NewEndpoint(&table, api.Put, "/v1/acl/mode",
		api.ServeMethod(access.ModeSet, bindMode, api.Whole))
)

// Mode is the mode of access control: off, log or enforce.
type Mode struct {
	Mode   string // of the cluster
	Server string `json:",omitempty"` // the server that answers
	Here   string `json:",omitempty"` // the mode by which it decides: its configuration may be stricter
}

func bindMode(c *api.Call, req *access.ModeSetRequest) error {
	var b Mode
	err := c.DecodeBody(&b)
	req.Mode = b.Mode
	return err
}

// ReadMode reads the mode of access control.
func ReadMode(ctx context.Context, c *api.Client) (*Mode, error) {
	return mode.Send(ctx, c, api.Request{})
}

// SetMode stores the mode of the cluster, also a looser one: root may at the operator socket of the leader.
func SetMode(ctx context.Context, c *api.Client, to string) error {
	return setMode.Exec(ctx, c, api.Request{Body: Mode{Mode: to}})
}

var policyList = api.NewEndpoint(&table, api.Get, "/v1/acl/policies",
	api.ServeMethod(access.PolicyList, nil,
		func(a *access.PolicyListResponse) []*access.PolicyStub { return a.Policies }))

// The dialect has the policies of the caller here, too.
var _ = policyList.At(api.Get, "/v1/acl/policy/self")

// Policies lists the access policies that the caller may see, without their rules.
func Policies(ctx context.Context, c *api.Client, q *api.Query) ([]*access.PolicyStub, *api.Meta, error) {
	return policyList.Fetch(ctx, c, "", q)
}

var policyGet = api.NewEndpoint(&table, api.Get, "/v1/acl/policy/{id}",
	api.ServeMethod(access.PolicyGet,
		api.WithID(func(q *access.NameRequest, id string) { q.Name = id }),
		func(a *access.PolicyGetResponse) *access.Policy { return a.Policy }))

// Policy reads an access policy.
func Policy(ctx context.Context, c *api.Client, name string) (*access.Policy, error) {
	p, _, err := policyGet.Fetch(ctx, c, name, nil)
	return p, err
}

var policyPut = api.NewEndpoint(&table, api.Put, "/v1/acl/policy/{id}",
	api.ServeMethod(access.PolicyPut, bindPolicy, api.Whole))

func bindPolicy(c *api.Call, req *access.PolicyPutRequest) error {
	req.Policy = &access.Policy{}
	err := c.DecodeBody(req.Policy)
	if err == nil {
		err = c.SameID("policy", req.Policy.Name)
	}
	req.Policy.Name = c.ID()
	return err
}

// PutPolicy creates or replaces an access policy.
func PutPolicy(ctx context.Context, c *api.Client, p *access.Policy) error {
	return policyPut.Exec(ctx, c, api.Request{ID: p.Name, Body: p})
}

var policyDelete = api.NewEndpoint(&table, api.Remove, "/v1/acl/policy/{id}",
	api.ServeMethod(access.PolicyDelete,
		api.WithID(func(q *access.PolicyDeleteRequest, id string) { q.Name = id }), api.Whole))

// DeletePolicy deletes an access policy.
func DeletePolicy(ctx context.Context, c *api.Client, name string) error {
	return policyDelete.Exec(ctx, c, api.Request{ID: name})
}

var roleList = api.NewEndpoint(&table, api.Get, "/v1/acl/roles",
	api.ServeMethod(access.RoleList, nil,
		func(a *access.RoleListResponse) []*access.Role { return a.Roles }))

// Roles lists the roles that the caller may see.
func Roles(ctx context.Context, c *api.Client, q *api.Query) ([]*access.Role, *api.Meta, error) {
	return roleList.Fetch(ctx, c, "", q)
}

var roleGet = api.NewEndpoint(&table, api.Get, "/v1/acl/role/{id}",
	api.ServeMethod(access.RoleGet,
		api.WithID(func(q *access.RoleGetRequest, id string) { q.ID = id }),
		func(a *access.RoleGetResponse) *access.Role { return a.Role }))

// Role reads a role by its ID.
func Role(ctx context.Context, c *api.Client, id string) (*access.Role, error) {
	r, _, err := roleGet.Fetch(ctx, c, id, nil)
	return r, err
}

var roleByName = api.NewEndpoint(&table, api.Get, "/v1/acl/role/name/{id}",
	api.ServeMethod(access.RoleGet,
		api.WithID(func(q *access.RoleGetRequest, name string) { q.Name = name }),
		func(a *access.RoleGetResponse) *access.Role { return a.Role }))

// RoleByName reads a role by its name.
func RoleByName(ctx context.Context, c *api.Client, name string) (*access.Role, error) {
	r, _, err := roleByName.Fetch(ctx, c, name, nil)
	return r, err
}

var (
	roleCreate = api.NewEndpoint(&table, api.Put, "/v1/acl/role", api.ServeMethod(access.RolePut, bindRole, roleOf))
	roleUpdate = api.NewEndpoint(&table, api.Put, "/v1/acl/role/{id}", api.ServeMethod(access.RolePut, bindRole, roleOf))
)

func roleOf(a *access.RolePutResponse) *access.Role { return a.Role }

// bindRole takes the ID of the path. A role that is created has none.
func bindRole(c *api.Call, req *access.RolePutRequest) error {
	req.Role = &access.Role{}
	err := c.DecodeBody(req.Role)
	if err != nil {
		return err
	}

	if c.ID() == "" && req.Role.ID != "" {
		return structs.Invalidf("ID: expected none for a new role; the path of a change has it")
	}
	err = c.SameID("role", req.Role.ID)
	req.Role.ID = c.ID()
	return err
}

// PutRole creates a role, or replaces the one with the ID.
func PutRole(ctx context.Context, c *api.Client, r *access.Role) (*access.Role, error) {
	if r.ID == "" {
		return roleCreate.Send(ctx, c, api.Request{Body: r})
	}
	return roleUpdate.Send(ctx, c, api.Request{ID: r.ID, Body: r})
}

var roleDelete = api.NewEndpoint(&table, api.Remove, "/v1/acl/role/{id}",
	api.ServeMethod(access.RoleDelete,
		api.WithID(func(q *access.RoleDeleteRequest, id string) { q.ID = id }), api.Whole))

// DeleteRole deletes a role.
func DeleteRole(ctx context.Context, c *api.Client, id string) error {
	return roleDelete.Exec(ctx, c, api.Request{ID: id})
}

var tokenList = api.NewEndpoint(&table, api.Get, "/v1/acl/tokens",
	api.ServeMethod(access.TokenList, bindTokenList,
		func(a *access.TokenListResponse) []*access.Token { return a.Tokens }))

// bindTokenList takes the parameter global of the dialect: all tokens or none are global in one region.
func bindTokenList(c *api.Call, req *access.TokenListRequest) error {
	_, err := c.Flag("global")
	return err
}

// Tokens lists the tokens, without their secrets.
func Tokens(ctx context.Context, c *api.Client, q *api.Query) ([]*access.Token, *api.Meta, error) {
	return tokenList.Fetch(ctx, c, "", q)
}

var tokenGet = api.NewEndpoint(&table, api.Get, "/v1/acl/token/{id}",
	api.ServeMethod(access.TokenGet,
		api.WithID(func(q *access.TokenGetRequest, id string) { q.AccessorID = id }),
		func(a *access.TokenGetResponse) *access.Token { return a.Token }))

// Token reads a token by its accessor.
func Token(ctx context.Context, c *api.Client, accessor string) (*access.Token, error) {
	t, _, err := tokenGet.Fetch(ctx, c, accessor, nil)
	return t, err
}

var tokenSelf = api.NewEndpoint[*access.OpenToken](&table, api.Get, "/v1/acl/token/self",
	func(c *api.Call) (any, error) {
		own := api.ServeMethod(access.TokenGet, nil, func(a *access.TokenGetResponse) *access.OpenToken {
			return &access.OpenToken{Token: *a.Token, SecretID: c.Token()}
		})
		return own(c)
	})

// TokenSelf reads the token of the client, with the secret that it sends.
func TokenSelf(ctx context.Context, c *api.Client) (*access.OpenToken, error) {
	t, _, err := tokenSelf.Fetch(ctx, c, "", nil)
	return t, err
}

var (
	tokenCreate = api.NewEndpoint(&table, api.Put, "/v1/acl/token",
		api.ServeMethod(access.TokenPut, bindToken, (*access.TokenPutResponse).Open))
	tokenUpdate = api.NewEndpoint(&table, api.Put, "/v1/acl/token/{id}",
		api.ServeMethod(access.TokenPut, bindToken, (*access.TokenPutResponse).Open))
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

func bindToken(c *api.Call, req *access.TokenPutRequest) error {
	var b tokenBody
	err := c.DecodeBody(&b)
	if err == nil {
		err = c.SameID("token", b.AccessorID)
	}
	if err != nil {
		return err
	}

	if c.ID() == "" && b.AccessorID != "" {
		return structs.Invalidf("AccessorID: expected none for a new token; the path of a change has it")
	}
	req.Token = &access.Token{
		AccessorID: c.ID(),
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
func PutToken(ctx context.Context, c *api.Client, t *access.Token, ttl time.Duration) (
	*access.OpenToken, error,
) {
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
		return tokenCreate.Send(ctx, c, api.Request{Body: b})
	}
	return tokenUpdate.Send(ctx, c, api.Request{ID: t.AccessorID, Body: b})
}

var tokenDelete = api.NewEndpoint(&table, api.Remove, "/v1/acl/token/{id}",
	api.ServeMethod(access.TokenDelete,
		api.WithID(func(q *access.TokenDeleteRequest, id string) { q.AccessorID = id }), api.Whole))

// DeleteToken deletes a token.
func DeleteToken(ctx context.Context, c *api.Client, accessor string) error {
	return tokenDelete.Exec(ctx, c, api.Request{ID: accessor})
}
