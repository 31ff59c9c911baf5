// Package setup prepares a Vault or an OpenBao for the logins of workloads: the auth method, its
// configuration, and a role and a policy for tasks. It compares Vault with what is needed, and returns the
// steps.
//
// The auth method and the policy that it makes say so. It changes and deletes only objects with that mark.
// The role and the configuration belong to their auth method. Each auth method has a policy of its own,
// because the rules name its accessor. Rights that an operator gives the policy stay.
package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/setupstep"
	"berth/structs"
	"berth/vault"
)

const (
	// Audience is the one that an identity needs for a login.
	Audience = "vault.io"
	// Name is that of the role, and of the policy for the default path.
	Name = "nomad-workloads"
	// AccessorMark stands for the accessor of the auth method in the rules of the policy.
	AccessorMark = "ACCESSOR"
	// mark is in the description of the auth method.
	mark = `Made by "berth setup vault".`
)

// The kinds of objects.
const (
	kindMethod = "auth method"
	kindConfig = "configuration"
	kindRole   = "role"
	kindPolicy = "policy"
)

// Wanted describes the objects that Vault shall have. An empty field leaves that of an object that is there.
type Wanted struct {
	JWKSURL string // of the public keys of the cluster
	JWKSCA  string // the authority of that URL, in PEM
	Rules   string // of the policy, with AccessorMark
	// DefaultURL returns the JWKSURL of a configuration that is not there yet.
	DefaultURL func(ctx context.Context) (string, error)
}

// Client makes the plans for the auth method at a path.
type Client struct {
	vault   *vault.Client
	address string
	access  vault.Access
	path    string
}

// Open returns a client for a Vault with a configuration. The token comes from the environment of the caller.
// It calls nothing.
func Open(cfg vault.Config, token structs.Secret) (*Client, error) {
	cfg.Enabled = true
	err := cfg.Validate()
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, structs.Invalidf("VAULT_TOKEN is not set; expected a token of Vault that may write auth methods and policies")
	}
	client, err := vault.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{
		vault:   client,
		address: cfg.Address,
		access:  vault.Access{Token: token, Namespace: cfg.Namespace},
		path:    strings.Trim(cfg.JWTAuthBackendPath, "/"),
	}, nil
}

// Address returns the address of Vault.
func (c *Client) Address() string { return c.address }

// Close ends idle connections.
func (c *Client) Close() { c.vault.Close() }

// present has the objects of a Vault. Those that are not there are nil or "".
type present struct {
	accessor string
	ours     bool // the auth method has the mark
	config   map[string]any
	role     map[string]any
	policy   string
}

// Plan returns the steps that give Vault what is wanted, in their order. The error is a conflict where an
// object of somebody else is in the way.
func (c *Client) Plan(ctx context.Context, w *Wanted) ([]*setupstep.Step, error) {
	p, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	config, err := c.configStep(ctx, p, w)
	if err != nil {
		return nil, err
	}
	policy, err := c.policyStep(p, w.Rules)
	if err != nil {
		return nil, err
	}

	// The role is last, so no task logs in before its policy is there.
	steps := []*setupstep.Step{c.methodStep(p), config, policy, c.roleStep(p)}
	for _, s := range steps {
		if p.accessor != "" && !p.ours && s.Action != setupstep.Keep && s.Kind != kindPolicy {
			return nil, structs.Conflictf("somebody else has made the auth method %s of Vault, so its %s is not "+
				"changed (%s): choose another path with -auth-path, or delete the method", c.path, s.Kind, s.Detail)
		}
	}
	return steps, nil
}

// read returns the objects that Vault has.
func (c *Client) read(ctx context.Context) (*present, error) {
	p := &present{}
	methods, err := c.get(ctx, "sys/auth")
	if err != nil {
		return nil, err
	}
	method, _ := methods[c.path+"/"].(map[string]any)
	if method != nil {
		p.accessor = text(method["accessor"])
		p.ours = strings.Contains(text(method["description"]), mark)
		if kind := text(method["type"]); kind != "jwt" {
			return nil, structs.Conflictf("the auth method %s of Vault has the type %q; expected jwt: choose another path with -auth-path", c.path, structs.Cut(kind, structs.MaxQuoted))
		}
		p.config, err = c.get(ctx, "auth/"+c.path+"/config")
		if err != nil {
			return nil, err
		}
		p.role, err = c.get(ctx, c.rolePath())
		if err != nil {
			return nil, err
		}
	}

	policy, err := c.get(ctx, c.policyPath())
	p.policy = text(policy["policy"])
	return p, err
}

func (c *Client) rolePath() string { return "auth/" + c.path + "/role/" + Name }

// get reads a path. A path that does not exist has no data.
func (c *Client) get(ctx context.Context, path string) (map[string]any, error) {
	return c.ask(ctx, "GET", path)
}

func (c *Client) ask(ctx context.Context, method, path string) (map[string]any, error) {
	answer, err := c.vault.Call(ctx, vault.Request{Access: c.access, Method: method, Path: path})
	if structs.IsKind(err, structs.KindNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain("reading "+path, err)
	}
	return answer.Data, nil
}

// write writes a path. The answer to a write has nothing of use.
func (c *Client) write(ctx context.Context, method, path string, body map[string]any) error {
	_, err := c.vault.Call(ctx, vault.Request{Access: c.access, Method: method, Path: path, Body: body})
	if err != nil {
		return c.explain("writing "+path, err)
	}
	return nil
}

// explain adds the remedy to an error.
func (c *Client) explain(doing string, err error) error {
	if structs.IsKind(err, structs.KindDenied) {
		return fmt.Errorf("%s: VAULT_TOKEN needs a token that may write auth methods and policies: %w", doing, err)
	}
	if structs.IsKind(err, structs.KindUnavailable) {
		return fmt.Errorf("Vault at %s (-vault-address, VAULT_ADDR): %s: %w", c.address, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func (c *Client) methodStep(p *present) *setupstep.Step {
	s := &setupstep.Step{Action: setupstep.Keep, Kind: kindMethod, Name: c.path}
	if p.accessor != "" {
		return s
	}
	s.Action = setupstep.Create
	s.Detail = "of the type jwt"
	s.Do = func(ctx context.Context) error {
		return c.write(ctx, "POST", "sys/auth/"+c.path, map[string]any{
			"type":        "jwt",
			"description": "Logins of workloads by their identities. " + mark,
		})
	}
	return s
}

// algorithms are those of the signing keys of the cluster.
var algorithms = []string{"RS256", "EdDSA"}

// configStep compares the configuration of the auth method. Vault replaces all of it at a write, so a change
// has its other values, too.
func (c *Client) configStep(ctx context.Context, p *present, w *Wanted) (*setupstep.Step, error) {
	s := &setupstep.Step{Action: setupstep.Change, Kind: kindConfig, Name: c.path}
	if len(p.config) == 0 {
		s.Action = setupstep.Create
	}
	next := given(p.config)
	delete(next, "status") // of the keys, which Vault computes
	var lacks []string
	need := func(key, value, what string) {
		if value != "" && text(next[key]) != value {
			next[key] = value
			lacks = append(lacks, what)
		}
	}

	url := w.JWKSURL
	if url == "" && text(next["jwks_url"]) == "" {
		var err error
		url, err = w.DefaultURL(ctx)
		if err != nil {
			return nil, err
		}
	}
	need("jwks_url", url, "verifies identities by the keys at "+url)
	need("jwks_ca_pem", w.JWKSCA, "trusts another authority of that URL")
	if text(next["default_role"]) == "" { // another one is the choice of an operator
		need("default_role", Name, "has the default role "+Name)
	}
	if supported, missing := union(next["jwt_supported_algs"], algorithms); missing != "" {
		next["jwt_supported_algs"] = supported
		lacks = append(lacks, "takes "+missing)
	}
	for _, other := range []string{"oidc_discovery_url", "jwt_validation_pubkeys"} {
		if next[other] != nil {
			return nil, structs.Conflictf("the auth method %s of Vault has %s, which excludes a jwks_url: choose "+
				"another path with -auth-path", c.path, other)
		}
	}
	if len(lacks) == 0 {
		s.Action = setupstep.Keep
		return s, nil
	}
	s.Detail = strings.Join(lacks, "; ")
	s.Do = func(ctx context.Context) error {
		return c.write(ctx, "POST", "auth/"+c.path+"/config", next)
	}
	return s, nil
}

// claims are the facts of an identity that become metadata of a login.
var claims = []string{"nomad_namespace", "nomad_job_id", "nomad_task"}

// duplicates are the former names of values of a role. Vault returns them beside the present ones, and takes
// the present ones at a write.
var duplicates = []string{"policies", "num_uses", "ttl", "max_ttl", "period", "bound_cidrs"}

// roleStep compares the role. Vault resets values that a write lacks, such as the type of the role, so a
// change has all values. Those of an operator beside what is needed stay.
func (c *Client) roleStep(p *present) *setupstep.Step {
	s := &setupstep.Step{Action: setupstep.Change, Kind: kindRole, Name: Name}
	next := given(p.role)
	for _, key := range duplicates {
		delete(next, key)
	}
	var lacks []string
	for _, list := range []struct{ key, value string }{
		{"bound_audiences", Audience},
		{"token_policies", c.policyName()},
	} {
		all, missing := union(p.role[list.key], []string{list.value})
		next[list.key] = all
		if missing != "" {
			lacks = append(lacks, list.key+" lacks "+missing)
		}
	}
	mappings, _ := p.role["claim_mappings"].(map[string]any)
	mappings = maps.Clone(mappings)
	if mappings == nil {
		mappings = map[string]any{}
	}
	for _, claim := range claims {
		if text(mappings[claim]) == "" {
			mappings[claim] = claim
			lacks = append(lacks, "claim_mappings lacks "+claim)
		}
	}
	next["claim_mappings"] = mappings

	switch {
	case len(p.role) == 0:
		s.Action = setupstep.Create
		s.Detail = "of tasks, with the policy " + c.policyName()
		next["role_type"] = "jwt"
		next["user_claim"] = "/nomad_job_id"
		next["user_claim_json_pointer"] = true
		next["token_type"] = "service"
		next["token_period"] = "30m" // the node renews it
	case len(lacks) == 0:
		s.Action = setupstep.Keep
		return s
	default:
		s.Detail = strings.Join(lacks, "; ")
	}
	s.Do = func(ctx context.Context) error { return c.write(ctx, "POST", c.rolePath(), next) }
	return s
}

// PlanRemoval returns the steps that delete what Plan has made for the path. The error is a conflict if the
// auth method has a role of somebody else.
func (c *Client) PlanRemoval(ctx context.Context) ([]*setupstep.Step, error) {
	p, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	var steps []*setupstep.Step
	add := func(kind, name, detail, path string) {
		steps = append(steps, &setupstep.Step{
			Action: setupstep.Delete, Kind: kind, Name: name, Detail: detail,
			Do: func(ctx context.Context) error { return c.write(ctx, "DELETE", path, nil) },
		})
	}
	if p.ours {
		list, err := c.ask(ctx, "LIST", "auth/"+c.path+"/role")
		if err != nil {
			return nil, err
		}
		for _, name := range texts(list["keys"]) {
			if name != Name {
				return nil, structs.Conflictf("the auth method %s of Vault has the role %s, which somebody else has "+
					"made: delete the role first", c.path, structs.Cut(name, structs.MaxQuoted))
			}
		}
		add(kindMethod, c.path, "with its configuration and its role; the tokens of all logins end",
			"sys/auth/"+c.path)
	}
	if strings.Contains(p.policy, c.policyMark()) {
		add(kindPolicy, c.policyName(), "", c.policyPath())
	}
	return steps, nil
}

// text returns a text of an answer, "" for anything else.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// texts returns a list of texts of an answer.
func texts(v any) (list []string) {
	all, _ := v.([]any)
	for _, e := range all {
		if s := text(e); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// union returns a list of an answer with some values, and those that it lacked.
func union(have any, need []string) (all []string, missing string) {
	all = texts(have)
	var lacks []string
	for _, v := range need {
		if !slices.Contains(all, v) {
			all = append(all, v)
			lacks = append(lacks, v)
		}
	}
	return all, strings.Join(lacks, ", ")
}

// given returns the values of an answer without those that are not set.
func given(data map[string]any) map[string]any {
	set := map[string]any{}
	for key, v := range data {
		list, isList := v.([]any)
		object, isObject := v.(map[string]any)
		empty := v == nil || v == "" || isList && len(list) == 0 || isObject && len(object) == 0
		if !empty {
			set[key] = v
		}
	}
	return set
}
