package schema

import (
	"berth/internal/mvcc"
	"berth/structs"
	"berth/structs/access"
)

// This file declares the tables of access control.

var (
	// ACLPolicies has the access policies by name.
	ACLPolicies = mvcc.NewTable("acl_policies", func(p *access.Policy) mvcc.Key {
		return mvcc.KeyOf(p.Name)
	})

	// Policies of workloads by the namespace and the job.
	ACLPoliciesByJob = ACLPolicies.Index("job", func(p *access.Policy) mvcc.Key {
		if p.JobACL == nil {
			return nil
		}
		return mvcc.KeyOf(p.JobACL.Namespace, p.JobACL.JobID)
	})
)

var (
	// ACLRoles has the roles by ID.
	ACLRoles = mvcc.NewTable("acl_roles", func(r *access.Role) mvcc.Key {
		return mvcc.KeyOf(r.ID)
	})

	// Roles by their names, which are unique.
	ACLRolesByName = ACLRoles.UniqueIndex("name", func(r *access.Role) mvcc.Key {
		return mvcc.KeyOf(r.Name)
	})
)

var (
	// ACLTokens has the tokens by accessor.
	ACLTokens = mvcc.NewTable("acl_tokens", func(t *access.Token) mvcc.Key {
		return mvcc.KeyOf(t.AccessorID)
	}).OnChange(recountMethodTokens)

	// Tokens by the hash of their secrets, to find the token of a request.
	ACLTokensBySecret = ACLTokens.UniqueIndex("secret", func(t *access.Token) mvcc.Key {
		return mvcc.KeyOf(string(t.SecretHash))
	})

	// Tokens with an end by it, for the deletion.
	ACLTokensByEnd = ACLTokens.Index("end", func(t *access.Token) mvcc.Key {
		return mvcc.KeyIf(t.ExpireTime != 0, orderedTime(t.ExpireTime))
	})
)

var (
	// ACLDeletedTokens has the tokens that were deleted by accessor.
	ACLDeletedTokens = mvcc.NewTable("acl_deleted_tokens", func(d *access.DeletedToken) mvcc.Key {
		return mvcc.KeyOf(d.AccessorID)
	})

	// Deleted tokens by the ends of their rows, for the deletion of these.
	ACLDeletedTokensByEnd = ACLDeletedTokens.Index("end", func(d *access.DeletedToken) mvcc.Key {
		return mvcc.KeyOf(orderedTime(d.End))
	})
)

// MethodTokens has the number of tokens that the logins of an auth method have made. A count of 0 has no row.
type MethodTokens struct {
	structs.Indexes
	Method string
	Tokens int
}

// ACLMethodTokens has the numbers of tokens of auth methods, by method, so that a login counts no token.
// recountMethodTokens alone writes it.
var ACLMethodTokens = mvcc.NewTable("acl_method_tokens", func(m *MethodTokens) mvcc.Key {
	return mvcc.KeyOf(m.Method)
}).Computed()

// recountMethodTokens keeps the numbers when a token changes. before or now may be nil. No token changes its
// method.
func recountMethodTokens(tx *mvcc.WriteTx, before, now *access.Token) {
	switch {
	case before == nil && now != nil:
		changeMethodTokens(tx, now.AuthMethod, 1)
	case before != nil && now == nil:
		changeMethodTokens(tx, before.AuthMethod, -1)
	}
}

func changeMethodTokens(tx *mvcc.WriteTx, method string, change int) {
	if method == "" {
		return
	}
	ACLMethodTokens.Edit(tx, func(before *MethodTokens) *MethodTokens {
		row := &MethodTokens{Method: method, Tokens: change}
		if before != nil {
			row.Tokens += before.Tokens
		}
		if row.Tokens == 0 {
			return nil
		}
		return row
	}, method)
}

// ACLBootstraps has one row, which says when the first token was made.
var ACLBootstraps = mvcc.NewTable("acl_bootstrap", func(*access.BootstrapMark) mvcc.Key {
	return mvcc.KeyOf("bootstrap")
})

// ACLModes has one row, the mode of access control of the cluster.
var ACLModes = mvcc.NewTable("acl_mode", func(*access.ControlMode) mvcc.Key {
	return mvcc.KeyOf("mode")
})

// SigningKeys has the keys that sign identities of workloads.
var SigningKeys = mvcc.NewTable("signing_keys", func(k *access.SigningKey) mvcc.Key {
	return mvcc.KeyOf(k.KeyID)
})

// ACLAuthMethods has the ways to log in by name.
var ACLAuthMethods = mvcc.NewTable("acl_auth_methods", func(m *access.AuthMethod) mvcc.Key {
	return mvcc.KeyOf(m.Name)
})

var (
	// ACLBindingRules has the rules that give the tokens of logins their rights, by ID.
	ACLBindingRules = mvcc.NewTable("acl_binding_rules", func(r *access.BindingRule) mvcc.Key {
		return mvcc.KeyOf(r.ID)
	})

	// Rules by their auth methods.
	ACLBindingRulesByMethod = ACLBindingRules.Index("method", func(r *access.BindingRule) mvcc.Key {
		return mvcc.KeyOf(r.AuthMethod)
	})
)

var (
	// ACLLoginMarks has the completed logins by OIDC, by the ID of their state.
	ACLLoginMarks = mvcc.NewTable("acl_login_marks", func(m *access.LoginMark) mvcc.Key {
		return mvcc.KeyOf(m.ID)
	})

	// Marks by their ends, for the deletion.
	ACLLoginMarksByEnd = ACLLoginMarks.Index("end", func(m *access.LoginMark) mvcc.Key {
		return mvcc.KeyOf(orderedTime(m.End))
	})
)

var (
	// ACLOneTimeTokens has the one-time tokens by the hash of their secrets.
	ACLOneTimeTokens = mvcc.NewTable("acl_one_time_tokens", func(o *access.OneTimeToken) mvcc.Key {
		return mvcc.KeyOf(string(o.Hash))
	})

	// One-time tokens by their ends, for the deletion.
	ACLOneTimeTokensByEnd = ACLOneTimeTokens.Index("end", func(o *access.OneTimeToken) mvcc.Key {
		return mvcc.KeyOf(orderedTime(o.End))
	})
)
