package state

import (
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// The most rows of the tables of policies, roles and tokens.
const (
	maxPolicies = 10_000
	maxRoles    = 10_000
	maxTokens   = 100_000

	// maxMethodTokens bounds the tokens of the logins by one auth method.
	maxMethodTokens = maxTokens / 4
)

// maxPolicyDescription bounds the description of a policy or a role, in bytes.
const maxPolicyDescription = 256

// Policy returns a policy, nil if there is none.
func Policy(tx mvcc.Reader, name string) *access.Policy { return schema.ACLPolicies.Get(tx, name) }

// Policies yields the policies by name.
func Policies(tx mvcc.Reader) iter.Seq[*access.Policy] { return schema.ACLPolicies.Scan(tx) }

// PolicyPut creates or replaces a policy. The procedure has checked its rules, which are a text here.
func PolicyPut(tx *mvcc.WriteTx, p *access.PolicyPutRequest) error {
	if p.Policy == nil || !validAccessName(p.Policy.Name) {
		return structs.Invalidf("the policy has no valid name: %s", accessNameForm)
	}
	err := checkPolicyDescription(p.Policy.Description)
	if err == nil {
		err = checkJobACL(p.Policy.JobACL)
	}
	if err != nil {
		return err
	}

	if schema.ACLPolicies.Get(tx, p.Policy.Name) == nil {
		err = checkRowBound(schema.ACLPolicies.Len(tx), maxPolicies, "policies")
		if err != nil {
			return err
		}
	}
	schema.ACLPolicies.Put(tx, p.Policy)
	return nil
}

// PolicyDelete deletes a policy. The error is not-found.
func PolicyDelete(tx *mvcc.WriteTx, p *access.PolicyDeleteRequest) error {
	row := schema.ACLPolicies.Get(tx, p.Name)
	if row == nil {
		return structs.NotFoundf("there is no policy %q", structs.Cut(p.Name, structs.MaxQuoted))
	}
	schema.ACLPolicies.Delete(tx, row)
	return nil
}

// Role returns a role by its ID, nil if there is none.
func Role(tx mvcc.Reader, id string) *access.Role { return schema.ACLRoles.Get(tx, id) }

// RoleByName returns a role by its name, nil if there is none.
func RoleByName(tx mvcc.Reader, name string) *access.Role {
	return schema.ACLRolesByName.First(tx, name)
}

// Roles yields the roles by ID.
func Roles(tx mvcc.Reader) iter.Seq[*access.Role] { return schema.ACLRoles.Scan(tx) }

// RolePut creates a role, or replaces the one with the ID.
func RolePut(tx *mvcc.WriteTx, p *access.RolePutRequest) error {
	r := p.Role
	err := CheckRole(r)
	if err != nil {
		return err
	}
	same := schema.ACLRolesByName.First(tx, r.Name)
	if same != nil && same.ID != r.ID {
		return structs.Conflictf("there is a role %q already, with the ID %s", r.Name, same.ID)
	}

	for _, link := range r.Policies {
		err = policyExists(tx, link.Name)
		if err != nil {
			return err
		}
	}
	if schema.ACLRoles.Get(tx, r.ID) == nil {
		err = checkRowBound(schema.ACLRoles.Len(tx), maxRoles, "roles")
		if err != nil {
			return err
		}
	}
	schema.ACLRoles.Put(tx, r)
	return nil
}

// CheckRole returns an error unless a role is complete, apart from whether its policies exist. The leader
// checks it before the log, and RolePut again: what an entry has may come from another version of berth.
func CheckRole(r *access.Role) error {
	switch {
	case r == nil || r.ID == "":
		return structs.Invalidf("the role has no ID")
	case !validAccessName(r.Name):
		return structs.Invalidf("the role has no valid name: %s", accessNameForm)
	case len(r.Policies) == 0:
		return structs.Invalidf("the role %q has no policy; expected at least one", r.Name)
	case len(r.Policies) > maxTokenLinks:
		return structs.Invalidf("the role %q has %d policies; expected at most %d",
			r.Name, len(r.Policies), maxTokenLinks)
	case slices.Contains(r.Policies, nil):
		return structs.Invalidf("Policies of the role %q: expected a policy, found null", r.Name)
	}
	return checkPolicyDescription(r.Description)
}

func checkPolicyDescription(text string) error {
	if len(text) > maxPolicyDescription {
		return structs.Invalidf("Description has %d bytes; expected at most %d", len(text), maxPolicyDescription)
	}
	return nil
}

// RoleDelete deletes a role. The error is not-found.
func RoleDelete(tx *mvcc.WriteTx, p *access.RoleDeleteRequest) error {
	row := schema.ACLRoles.Get(tx, p.ID)
	if row == nil {
		return structs.NotFoundf("there is no role with the ID %q", structs.Cut(p.ID, structs.MaxQuoted))
	}
	schema.ACLRoles.Delete(tx, row)
	return nil
}

func policyExists(tx mvcc.Reader, name string) error {
	if schema.ACLPolicies.Get(tx, name) == nil {
		return structs.Preconditionf("there is no policy %q; create it: berth acl policy apply",
			structs.Cut(name, structs.MaxQuoted))
	}
	return nil
}

// checkRowBound returns an error if a table with a number of rows has its most.
func checkRowBound(count, most int, name string) error {
	if count >= most {
		return structs.Preconditionf("there are %d %s, the most that the servers store; delete some of them first",
			count, name)
	}
	return nil
}

// accessNameForm is the rule for the names of policies, roles, auth methods and admission rules.
const accessNameForm = "expected 1 to 128 letters, digits, dashes and underscores"

func validAccessName(name string) bool {
	valid := func(r rune) bool {
		return r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	invalid := func(r rune) bool { return !valid(r) }
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, invalid)
}
