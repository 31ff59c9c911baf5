package access

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"berth/fsm"
	"berth/internal/authmethod"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// Methods lists the auth methods.
func (Logins) Methods(tx *state.ReadTx, _ *structs.QueryRequest,
	resp *access.AuthMethodListResponse) error {
	resp.Methods = []*access.AuthMethodStub{}
	for m := range state.AuthMethods(tx) {
		resp.Methods = append(resp.Methods, m.Stub())
	}
	return nil
}

// Method reads an auth method, without its secrets.
func (Logins) Method(
	tx *state.ReadTx, req *access.AuthMethodGetRequest, resp *access.AuthMethodGetResponse,
) error {
	m := state.AuthMethod(tx, req.Name)
	if m == nil {
		return structs.NotFoundf("there is no auth method %q", structs.Cut(req.Name, structs.MaxQuoted))
	}
	resp.Method = m.Shown()
	return nil
}

// PutMethod creates an auth method, or changes the parts of a known one that the request has.
func (p Logins) PutMethod(
	ctx context.Context, req *access.AuthMethodPutRequest, resp *access.AuthMethodPutResponse,
) (uint64, error) {
	if req.Method == nil {
		return 0, structs.Invalidf("there is no auth method")
	}

	m := req.Method.Copy()
	m.Sealed = nil
	known := state.AuthMethod(p.Store.Read(), m.Name)
	fillMethod(m, known)
	err := state.CheckAuthMethod(m)
	if err == nil {
		err = p.takeSecrets(m, known)
	}
	if err != nil {
		return 0, err
	}

	index, err := fsm.Propose(ctx, p.Raft, fsm.ACLAuthMethodPut, &access.AuthMethodChange{Method: m,
		Now: req.Now})
	if err != nil {
		return 0, err
	}
	stored := state.AuthMethod(p.Store.Read(), m.Name)
	if stored == nil {
		return 0, structs.NotFoundf("the auth method was deleted meanwhile")
	}
	resp.Method = stored.Shown()
	return index, nil
}

// fillMethod sets what a request leaves out to the values of the known method, nil for none, and to defaults.
func fillMethod(m, known *access.AuthMethod) {
	if known != nil {
		m.Type = cmp.Or(m.Type, known.Type)
		m.TokenLocality = cmp.Or(m.TokenLocality, known.TokenLocality)
		m.TokenNameFormat = cmp.Or(m.TokenNameFormat, known.TokenNameFormat)
		m.MaxTokenTTL = cmp.Or(m.MaxTokenTTL, known.MaxTokenTTL)
		if m.Config == nil {
			m.Config = known.Copy().Config
		}
	}
	m.TokenNameFormat = cmp.Or(m.TokenNameFormat, access.DefaultNameFormat)
}

// takeSecrets checks the configuration of a method and moves its secrets into Sealed. A secret that the
// request leaves out stays as in the known method.
func (p Logins) takeSecrets(m, known *access.AuthMethod) error {
	var former access.AuthSecrets
	if known != nil {
		var err error
		former, err = p.open(known)
		if err != nil {
			return err
		}
	}

	secrets, err := mergeSecrets(m.Config, former)
	if err != nil {
		return err
	}
	// The provider gets the secrets: whoever may change a method must not be able to read them so.
	moved := known != nil && known.Config.OIDCDiscoveryURL != m.Config.OIDCDiscoveryURL
	if moved && (kept(secrets.OIDCClientSecret, former.OIDCClientSecret, m.Config.OIDCClientSecret) ||
		kept(secrets.PemKey, former.PemKey, pemKeyOf(m.Config))) {
		return structs.Invalidf("OIDCDiscoveryURL changes, and the stored secrets are for the former provider: give " +
			"OIDCClientSecret and PemKey again")
	}

	err = checkMappings(m)
	if err == nil {
		err = authmethod.Check(m, secrets)
	}
	if err != nil {
		return err
	}
	redact(m.Config, secrets)
	if known != nil && known.Sealed != nil && secrets == former {
		m.Sealed = known.Sealed
		return nil
	}
	m.Sealed, err = p.seal(m.Name, secrets)
	return err
}

// kept reports whether a secret is the stored one, and the request does not have it.
func kept(now, former, given access.Secret) bool {
	return now != "" && now == former && given != now
}

// mergeSecrets returns the secrets of a configuration, with stored ones where it leaves them out.
func mergeSecrets(c *access.AuthConfig, former access.AuthSecrets) (s access.AuthSecrets, err error) {
	s.OIDCClientSecret, err = secretOr("OIDCClientSecret", c.OIDCClientSecret, former.OIDCClientSecret)
	if err == nil && c.OIDCClientAssertion != nil && c.OIDCClientAssertion.PrivateKey != nil {
		s.PemKey, err = secretOr("PemKey", pemKeyOf(c), former.PemKey)
	}
	return s, err
}

func secretOr(field string, given, former access.Secret) (access.Secret, error) {
	switch {
	case given == access.Redacted && former == "":
		return "", structs.Invalidf("%s is %q, which stands for a stored secret, and there is none", field,
			string(access.Redacted))
	case given == "" || given == access.Redacted:
		return former, nil
	}
	return given, nil
}

func pemKeyOf(c *access.AuthConfig) access.Secret {
	if c.OIDCClientAssertion == nil || c.OIDCClientAssertion.PrivateKey == nil {
		return ""
	}
	return c.OIDCClientAssertion.PrivateKey.PemKey
}

// redact puts the mark of a stored secret in the place of each secret.
func redact(c *access.AuthConfig, secrets access.AuthSecrets) {
	c.OIDCClientSecret = ""
	if secrets.OIDCClientSecret != "" {
		c.OIDCClientSecret = access.Redacted
	}
	if secrets.PemKey != "" {
		c.OIDCClientAssertion.PrivateKey.PemKey = access.Redacted
	}
}

// checkMappings checks the names that selectors use.
func checkMappings(m *access.AuthMethod) error {
	for _, mappings := range []map[string]string{m.Config.ClaimMappings, m.Config.ListClaimMappings} {
		names := map[string]bool{}
		for claim, name := range mappings {
			if claim == "" || name == "" || len(name) > maxName || strings.ContainsFunc(name, isNoNameRune) {
				claim = structs.Cut(claim, structs.MaxQuoted)
				name = structs.Cut(name, structs.MaxQuoted)
				return structs.Invalidf("the mapping of claim %q to %q: expected a claim, and a name of at "+
					"most %d letters, digits and underscores", claim, name, maxName)
			}
			if names[name] {
				return structs.Invalidf("two claims are mapped to %q; expected one for each name", name)
			}
			names[name] = true
		}
	}
	return authmethod.CheckNameFormat(m)
}

// isNoNameRune reports whether the name of a mapping must not have a rune.
func isNoNameRune(r rune) bool {
	digit := '0' <= r && r <= '9'
	lower := 'a' <= r && r <= 'z'
	upper := 'A' <= r && r <= 'Z'
	return !(digit || lower || upper || r == '_')
}

// seal encrypts the secrets of a method, none to nil.
func (p Logins) seal(method string, secrets access.AuthSecrets) (*structs.Sealed, error) {
	if secrets == (access.AuthSecrets{}) {
		return nil, nil
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil,
			structs.Internalf("encoding the secrets of an auth method failed") // the error could quote one
	}
	sealed, err := p.Keys.Seal(access.AuthPlace(method), text)
	if err != nil {
		return nil, withFirstKey(err, p.Keys)
	}
	return sealed, nil
}

// open decrypts the secrets of a method. The error is unavailable if this server has not opened their root
// key.
func (p Logins) open(m *access.AuthMethod) (secrets access.AuthSecrets, err error) {
	if m.Sealed == nil {
		return secrets, nil
	}
	text, err := p.Keys.Open(access.AuthPlace(m.Name), m.Sealed)
	if structs.IsKind(err, structs.KindPrecondition) {
		return secrets, structs.Unavailablef("%w", err)
	}
	if err == nil && json.Unmarshal(text, &secrets) != nil { // whose error may have a value
		err = structs.Internalf("the secrets of auth method %s are not valid", m.Name)
	}
	return secrets, err
}

// Rules lists the binding rules.
func (Logins) Rules(tx *state.ReadTx, _ *structs.QueryRequest,
	resp *access.BindingRuleListResponse) error {
	resp.Rules = []*access.BindingRuleStub{}
	for r := range state.BindingRules(tx) {
		resp.Rules = append(resp.Rules, r.Stub())
	}
	return nil
}

// Rule reads a binding rule.
func (Logins) Rule(
	tx *state.ReadTx, req *access.BindingRuleGetRequest, resp *access.BindingRuleGetResponse,
) error {
	resp.Rule = state.BindingRule(tx, req.ID)
	if resp.Rule == nil {
		return structs.NotFoundf("there is no binding rule with the ID %q", structs.Cut(req.ID,
			structs.MaxQuoted))
	}
	return nil
}

// PutRule creates a binding rule, or changes the parts of a known one that the request has.
func (p Logins) PutRule(
	ctx context.Context, req *access.BindingRulePutRequest, resp *access.BindingRulePutResponse,
) (uint64, error) {
	if req.Rule == nil {
		return 0, structs.Invalidf("there is no binding rule")
	}

	r := *req.Rule
	if r.ID == "" {
		r.ID = structs.NewID()
	} else {
		known := state.BindingRule(p.Store.Read(), r.ID)
		if known == nil {
			return 0, structs.NotFoundf("there is no binding rule with the ID %q", structs.Cut(r.ID,
				structs.MaxQuoted))
		}
		fillRule(&r, known)
	}
	err := state.CheckBindingRule(&r)
	if err == nil {
		err = authmethod.CheckSelector(r.Selector)
	}
	if err == nil {
		err = authmethod.CheckBindName(r.BindName)
	}
	if err != nil {
		return 0, err
	}

	index, err := fsm.Propose(ctx, p.Raft, fsm.ACLBindingRulePut, &access.BindingRuleChange{Rule: &r,
		Now: req.Now})
	if err != nil {
		return 0, err
	}
	resp.Rule = state.BindingRule(p.Store.Read(), r.ID)
	return index, nil
}

// fillRule sets what a request leaves out to the values of the known rule. A selector that is left out stays:
// without it the rule would be for everybody.
func fillRule(r, known *access.BindingRule) {
	r.Description = cmp.Or(r.Description, known.Description)
	r.AuthMethod = cmp.Or(r.AuthMethod, known.AuthMethod)
	r.Selector = cmp.Or(r.Selector, known.Selector)
	r.BindType = cmp.Or(r.BindType, known.BindType)
	if r.BindType != access.BindManagement {
		r.BindName = cmp.Or(r.BindName, known.BindName)
	}
}
