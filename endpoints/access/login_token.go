package access

import (
	"context"
	"slices"

	"berth/fsm"
	"berth/internal/authmethod"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// verifiedLogin is a login whose claims are proven.
type verifiedLogin struct {
	method *access.AuthMethod
	claims map[string]any
	mark   *access.LoginMark // nil for a JWT
	now    int64             // UnixNano
}

// makeToken makes the token that the rules of the method give to a login. The error is denied if they give
// nothing.
func (p Logins) makeToken(ctx context.Context, v verifiedLogin, resp *access.TokenPutResponse) (uint64,
	error) {
	mapped, err := authmethod.MapClaims(v.method.Config, v.claims)
	if err != nil {
		return 0, err
	}

	tx := p.Store.Read()
	given := authmethod.DecideRights(state.BindingRulesOf(tx, v.method.Name), mapped)
	t := tokenOf(tx, given)
	if v.method.Config.VerboseLogging {
		p.Logger.Info("binding rules matched a login", "auth_method", v.method.Name, "rules", given.Matched,
			"type", t.Type, "policies", t.Policies, "roles", len(t.Roles))
	}
	if t.Type == access.TypeClient && len(t.Policies)+len(t.Roles) == 0 {
		return 0, structs.Deniedf("the login is valid, and no binding rule of auth method %s gives it a policy or a role "+
			"that exists: ask an administrator of the cluster for one", v.method.Name)
	}

	secret := structs.NewID()
	t.AccessorID = structs.NewID()
	t.SecretHash = access.HashSecret(secret)
	t.Name = authmethod.TokenName(v.method, mapped)
	t.Global = v.method.TokenLocality == access.LocalityGlobal
	t.ExpireTime = v.now + int64(v.method.MaxTokenTTL)
	index, err := fsm.Propose(ctx, p.Raft, fsm.ACLLogin, &access.LoginChange{
		Token:       t,
		Method:      v.method.Name,
		MethodIndex: v.method.ModifyIndex,
		Mark:        v.mark,
		Now:         v.now,
	})
	if err != nil {
		return 0, err
	}

	err = p.answer(t.AccessorID, secret, resp)
	return index, err
}

// tokenOf returns the token for all that rules give and that exists.
func tokenOf(tx state.Reader, given authmethod.Given) *access.Token {
	if given.Management {
		return &access.Token{Type: access.TypeManagement}
	}

	t := &access.Token{Type: access.TypeClient}
	for _, name := range given.Policies {
		if state.Policy(tx, name) != nil && !slices.Contains(t.Policies, name) {
			t.Policies = append(t.Policies, name)
		}
	}
	for _, name := range given.Roles {
		role := state.RoleByName(tx, name)
		if role == nil {
			role = state.Role(tx, name)
		}
		known := func(l *access.Link) bool { return l.ID == role.ID }
		if role != nil && !slices.ContainsFunc(t.Roles, known) {
			t.Roles = append(t.Roles, &access.Link{ID: role.ID})
		}
	}
	return t
}

// answer fills in a token with its secret.
func (p Logins) answer(accessor, secret string, resp *access.TokenPutResponse) error {
	tx := p.Store.Read()
	stored := state.TokenByAccessor(tx, accessor)
	if stored == nil {
		return structs.NotFoundf("the token was deleted meanwhile")
	}
	resp.Token = state.TokenWithRoleNames(tx, stored)
	resp.SecretID = secret
	return nil
}
