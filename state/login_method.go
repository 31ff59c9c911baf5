package state

import (
	"iter"
	"slices"
	"time"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// The most rows of the tables of logins.
const (
	maxAuthMethods   = 100
	maxBindingRules  = 10_000
	maxLoginMarks    = 100_000
	maxOneTimeTokens = 10_000
)

// The bounds on the life of a token of a login.
const (
	minLoginTTL = access.Duration(time.Second)
	maxLoginTTL = access.Duration(90 * 24 * time.Hour)
)

const (
	maxSelector        = 2048 // bytes
	maxBindName        = 256  // bytes
	maxTokenNameFormat = 256  // bytes
)

// AuthMethod returns a way to log in, nil if there is none.
func AuthMethod(tx mvcc.Reader, name string) *access.AuthMethod {
	return schema.ACLAuthMethods.Get(tx, name)
}

// AuthMethods yields the ways to log in by name.
func AuthMethods(tx mvcc.Reader) iter.Seq[*access.AuthMethod] { return schema.ACLAuthMethods.Scan(tx) }

// AuthMethodPut creates or replaces a way to log in. Its secrets are sealed.
func AuthMethodPut(tx *mvcc.WriteTx, p *access.AuthMethodChange) error {
	err := CheckAuthMethod(p.Method)
	if err == nil {
		err = trust.CheckSealed(tx, p.Method.Sealed)
	}
	if err != nil {
		return err
	}
	for m := range schema.ACLAuthMethods.Scan(tx) {
		if p.Method.Default && m.Default && m.Type == p.Method.Type && m.Name != p.Method.Name {
			return structs.Conflictf("%s is the default of type %s; berth acl auth-method update -default=false %s "+
				"before there is another one", m.Name, m.Type, m.Name)
		}
	}

	stored := *p.Method
	stored.CreateTime = access.Time(p.Now)
	stored.ModifyTime = access.Time(p.Now)
	known := schema.ACLAuthMethods.Get(tx, stored.Name)
	if known == nil {
		err = checkRowBound(schema.ACLAuthMethods.Len(tx), maxAuthMethods, "auth methods")
		if err != nil {
			return err
		}
	} else {
		stored.CreateTime = known.CreateTime
	}
	schema.ACLAuthMethods.Put(tx, &stored)
	return nil
}

// CheckAuthMethod returns an error unless a way to log in is complete, apart from its configuration. The
// leader checks it before the log, and AuthMethodPut again.
func CheckAuthMethod(m *access.AuthMethod) error {
	switch {
	case m == nil || !validAccessName(m.Name):
		return structs.Invalidf("the auth method has no valid name: %s", accessNameForm)
	case m.Type != access.MethodOIDC && m.Type != access.MethodJWT:
		return structs.Invalidf("Type is %q; expected %s or %s", structs.Cut(m.Type, structs.MaxQuoted),
			access.MethodOIDC, access.MethodJWT)
	case m.TokenLocality != access.LocalityLocal && m.TokenLocality != access.LocalityGlobal:
		return structs.Invalidf("TokenLocality is %q; expected %s or %s",
			structs.Cut(m.TokenLocality, structs.MaxQuoted), access.LocalityLocal, access.LocalityGlobal)
	case m.MaxTokenTTL < minLoginTTL || m.MaxTokenTTL > maxLoginTTL:
		return structs.Invalidf("MaxTokenTTL is %s; expected %s to %s", m.MaxTokenTTL, minLoginTTL,
			maxLoginTTL)
	case len(m.TokenNameFormat) > maxTokenNameFormat:
		return structs.Invalidf("TokenNameFormat has %d bytes; expected at most %d", len(m.TokenNameFormat),
			maxTokenNameFormat)
	case m.Config == nil:
		return structs.Invalidf("the auth method %q has no Config", m.Name)
	}
	return nil
}

// AuthMethodDelete deletes a way to log in with its rules: another method of the same name must not have
// them. The error is not-found.
func AuthMethodDelete(tx *mvcc.WriteTx, p *access.AuthMethodDeleteRequest) error {
	row := schema.ACLAuthMethods.Get(tx, p.Name)
	if row == nil {
		return structs.NotFoundf("there is no auth method %q", structs.Cut(p.Name, structs.MaxQuoted))
	}

	for _, r := range slices.Collect(BindingRulesOf(tx, row.Name)) {
		schema.ACLBindingRules.Delete(tx, r)
	}
	schema.ACLAuthMethods.Delete(tx, row)
	return nil
}

// BindingRule returns a rule, nil if there is none.
func BindingRule(tx mvcc.Reader, id string) *access.BindingRule {
	return schema.ACLBindingRules.Get(tx, id)
}

// BindingRules yields the rules by ID.
func BindingRules(tx mvcc.Reader) iter.Seq[*access.BindingRule] {
	return schema.ACLBindingRules.Scan(tx)
}

// BindingRulesOf yields the rules of an auth method.
func BindingRulesOf(tx mvcc.Reader, method string) iter.Seq[*access.BindingRule] {
	return schema.ACLBindingRulesByMethod.Scan(tx, method)
}

// BindingRulePut creates or replaces a rule. The method of a rule never changes.
func BindingRulePut(tx *mvcc.WriteTx, p *access.BindingRuleChange) error {
	err := CheckBindingRule(p.Rule)
	if err != nil {
		return err
	}
	if schema.ACLAuthMethods.Get(tx, p.Rule.AuthMethod) == nil {
		return structs.Preconditionf("there is no auth method %q; create it: berth acl auth-method create",
			structs.Cut(p.Rule.AuthMethod, structs.MaxQuoted))
	}

	stored := *p.Rule
	stored.CreateTime = access.Time(p.Now)
	stored.ModifyTime = access.Time(p.Now)
	known := schema.ACLBindingRules.Get(tx, stored.ID)
	switch {
	case known == nil:
		err = checkRowBound(schema.ACLBindingRules.Len(tx), maxBindingRules, "binding rules")
		if err != nil {
			return err
		}
	case known.AuthMethod != stored.AuthMethod:
		return structs.Invalidf("the rule is one of auth method %q for ever; create another rule",
			known.AuthMethod)
	default:
		stored.CreateTime = known.CreateTime
	}
	schema.ACLBindingRules.Put(tx, &stored)
	return nil
}

// CheckBindingRule returns an error unless a rule is complete, apart from whether its method exists and its
// expressions are valid.
func CheckBindingRule(r *access.BindingRule) error {
	switch {
	case r == nil || r.ID == "":
		return structs.Invalidf("the binding rule has no ID")
	case r.BindType != access.BindRole && r.BindType != access.BindPolicy && r.BindType != access.BindManagement:
		return structs.Invalidf("BindType is %q; expected %s, %s or %s",
			structs.Cut(r.BindType, structs.MaxQuoted), access.BindRole, access.BindPolicy,
			access.BindManagement)
	case r.BindType == access.BindManagement && r.BindName != "":
		return structs.Invalidf("BindName is for roles and policies; expected none with BindType %s",
			r.BindType)
	case r.BindType != access.BindManagement && r.BindName == "":
		return structs.Invalidf("BindName is empty; expected the name of a %s", r.BindType)
	case len(r.BindName) > maxBindName:
		return structs.Invalidf("BindName has %d bytes; expected at most %d", len(r.BindName), maxBindName)
	case len(r.Selector) > maxSelector:
		return structs.Invalidf("Selector has %d bytes; expected at most %d", len(r.Selector), maxSelector)
	}
	return checkPolicyDescription(r.Description)
}

// BindingRuleDelete deletes a rule. The error is not-found.
func BindingRuleDelete(tx *mvcc.WriteTx, p *access.BindingRuleDeleteRequest) error {
	row := schema.ACLBindingRules.Get(tx, p.ID)
	if row == nil {
		return structs.NotFoundf("there is no binding rule with the ID %q", structs.Cut(p.ID,
			structs.MaxQuoted))
	}
	schema.ACLBindingRules.Delete(tx, row)
	return nil
}
