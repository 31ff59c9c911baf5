package setup

import (
	"context"
	"regexp"
	"strings"

	"berth/internal/setupstep"
	"berth/structs"
	"berth/vault"
)

// defaultRules let a task read what is below its namespace and its job in the KV engine at secret/.
const defaultRules = `path "secret/data/{{identity.entity.aliases.ACCESSOR.metadata.nomad_namespace}}/` +
	`{{identity.entity.aliases.ACCESSOR.metadata.nomad_job_id}}/*" {
  capabilities = ["read"]
}
`

// policyMark begins the mark of all policies. The path of the auth method in quotes follows it.
const policyMark = `Made by "berth setup vault" for the auth method `

// policyMark returns the mark of the policy for the path. No path has a quote, so no mark is a part of
// another one.
func (c *Client) policyMark() string { return policyMark + `"` + c.path + `".` }

// policyName returns the name of the policy for the path. Vault has names of policies in lower case.
func (c *Client) policyName() string {
	if c.path == vault.DefaultAuthPath {
		return Name
	}
	return Name + "-" + strings.ToLower(strings.ReplaceAll(c.path, "/", "-"))
}

func (c *Client) policyPath() string { return "sys/policies/acl/" + c.policyName() }

// accessors matches the accessor of an auth method, as Vault and OpenBao make it.
var accessors = regexp.MustCompile(`\bauth_jwt_[0-9a-f]+\b`)

// policyStep compares the policy. It names the accessor of the auth method, which Vault chooses.
func (c *Client) policyStep(p *present, rules string) (*setupstep.Step, error) {
	s := &setupstep.Step{Action: setupstep.Change, Kind: kindPolicy, Name: c.policyName()}
	isOurs := strings.Contains(p.policy, c.policyMark())
	names := p.accessor != "" && strings.Contains(p.policy, p.accessor)
	switch {
	case p.policy == "":
		s.Action = setupstep.Create
		s.Detail = "lets a task read secret/NAMESPACE/JOB/*"
		if rules == "" {
			rules = defaultRules
		} else {
			s.Detail = "has the rules of -policy-file"
		}
	case !isOurs && strings.Contains(p.policy, policyMark): // such as that of a/b for a-b
		return nil, structs.Conflictf("the policy %s of Vault is that of another auth method, as its first line "+
			"says: choose another path than %s with -auth-path", s.Name, c.path)
	case !isOurs && rules != "":
		return nil, structs.Conflictf("somebody else has made the policy %s of Vault, so its rules are not "+
			"changed: leave -policy-file out, or delete the policy", s.Name)
	case !isOurs:
		s.Action = setupstep.Keep
		if !names {
			s.Detail = withoutAccessor(p.accessor)
		}
		return s, nil
	case rules == "" && !names && accessors.MatchString(p.policy):
		// The method was made anew. The rest of the policy stays.
		s.Detail = "names the new auth method"
		rules = accessors.ReplaceAllString(strings.TrimPrefix(p.policy, c.firstLine()), AccessorMark)
	case rules == "", p.policy == c.policyText(rules, p.accessor):
		s.Action = setupstep.Keep
		return s, nil
	default:
		s.Detail = "has other rules than -policy-file"
	}
	s.Do = func(ctx context.Context) error {
		now, err := c.read(ctx) // the method may be new
		if err != nil {
			return err
		}
		return c.write(ctx, "PUT", c.policyPath(), map[string]any{"policy": c.policyText(rules, now.accessor)})
	}
	return s, nil
}

// withoutAccessor describes a policy of somebody else that does not name the accessor of the auth method.
func withoutAccessor(accessor string) string {
	if accessor == "" {
		accessor = "of the new auth method, which the next run shows"
	}
	return "somebody else has made it; no rule names the accessor " + accessor +
		", so none depends on the namespace or the job of a task"
}

// firstLine begins a policy.
func (c *Client) firstLine() string { return "# " + c.policyMark() + "\n" }

// policyText returns the text of the policy with rules for an auth method.
func (c *Client) policyText(rules, accessor string) string {
	return c.firstLine() + strings.ReplaceAll(rules, AccessorMark, accessor)
}
