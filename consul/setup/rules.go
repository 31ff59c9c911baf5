package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/internal/setupstep"
	"berth/structs"
)

// neededRules returns the binding rules of services and of tasks.
func neededRules() []*api.ACLBindingRule {
	return []*api.ACLBindingRule{
		{
			Description: "A service may register itself. " + mark,
			AuthMethod:  consul.DefaultAuthMethod,
			BindType:    api.BindingRuleBindTypeService,
			BindName:    "${value." + claimService + "}",
			Selector:    `"` + claimService + `" in value`,
		},
		{
			Description: "A task has the role of its namespace. " + mark,
			AuthMethod:  consul.DefaultAuthMethod,
			BindType:    api.BindingRuleBindTypeRole,
			BindName:    RolePrefix + "${value.nomad_namespace}",
			Selector:    `"` + claimService + `" not in value`,
		},
	}
}

// ruleStep compares a binding rule. One of somebody else that does the same will do.
func (c *Client) ruleStep(rules []*api.ACLBindingRule, need *api.ACLBindingRule) *setupstep.Step {
	for _, r := range rules {
		if r.BindType == need.BindType && r.BindName == need.BindName && r.Selector == need.Selector {
			return kept(kindRule, ruleName(r), r.Description)
		}
	}

	at := slices.IndexFunc(rules, func(r *api.ACLBindingRule) bool { return r.Description == need.Description })
	if at >= 0 {
		need.ID = rules[at].ID
		return &setupstep.Step{
			Action: setupstep.Change,
			Kind:   kindRule,
			Name:   ruleName(need),
			Detail: "it is " + ruleName(rules[at]),
			Do: func(ctx context.Context) error {
				_, _, err := c.acl.BindingRuleUpdate(need, writing(ctx))
				return c.written(kindRule, ruleName(need), err)
			},
		}
	}
	return &setupstep.Step{
		Action: setupstep.Create,
		Kind:   kindRule,
		Name:   ruleName(need),
		Detail: strings.TrimSuffix(need.Description, ". "+mark),
		Do: func(ctx context.Context) error {
			_, _, err := c.acl.BindingRuleCreate(need, writing(ctx))
			return c.written(kindRule, ruleName(need), err)
		},
	}
}

// ruleName describes a rule, which has no name in Consul.
func ruleName(r *api.ACLBindingRule) string {
	return fmt.Sprintf("%s %s if %s", r.BindType, r.BindName, r.Selector)
}

// written explains the error of a write.
func (c *Client) written(kind, name string, err error) error {
	if err == nil {
		return nil
	}
	return c.explain("writing the "+kind+" "+name, err)
}

// taskSteps compares the role of the tasks of a namespace and its policy, which have the same name. A role
// of somebody else has the rights that they have given it.
func (c *Client) taskSteps(ctx context.Context, p *present, name, rules string) ([]*setupstep.Step, error) {
	role := find(p.roles, func(r *api.ACLRole) bool { return r.Name == name })
	if role != nil && !ours(role.Description) && rules == "" {
		return []*setupstep.Step{kept(kindRole, name, role.Description)}, nil
	}
	if role != nil && !ours(role.Description) {
		return nil, structs.Conflictf("somebody else has made the role %s of Consul, so its rights are not "+
			"changed: leave -policy-file out, or delete the role", name)
	}
	// Somebody has given the role other rights than the policy's.
	if role != nil && rules == "" && hasRights(role) && !links(role, name) {
		return []*setupstep.Step{kept(kindRole, name, role.Description)}, nil
	}

	policy, err := c.policyStep(ctx, p.policies, name, rules)
	if err != nil {
		return nil, err
	}
	return []*setupstep.Step{policy, c.roleStep(role, name)}, nil
}

// policyStep compares the policy. The rules of one that is there stay, unless others are wanted.
func (c *Client) policyStep(
	ctx context.Context, policies []*api.ACLPolicyListEntry, name, rules string,
) (*setupstep.Step, error) {
	entry := find(policies, func(e *api.ACLPolicyListEntry) bool { return e.Name == name })
	if entry == nil {
		if rules == "" {
			rules = defaultRules
		}
		return &setupstep.Step{
			Action: setupstep.Create,
			Kind:   kindPolicy,
			Name:   name,
			Detail: strings.Join(strings.Fields(rules), " "),
			Do: func(ctx context.Context) error {
				_, _, err := c.acl.PolicyCreate(&api.ACLPolicy{
					Name:        name,
					Description: "The rights of tasks of berth. " + mark,
					Rules:       rules,
				}, writing(ctx))
				return c.written(kindPolicy, name, err)
			},
		}, nil
	}
	if !ours(entry.Description) {
		return nil, structs.Conflictf("somebody else has made the policy %s of Consul, so tasks do not get its "+
			"rights: give it another name, or make a role %s with it", name, name)
	}

	policy, _, err := c.acl.PolicyRead(entry.ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, c.explain("reading the policy "+name, err)
	}
	if rules == "" || policy.Rules == rules {
		return kept(kindPolicy, name, entry.Description), nil
	}
	policy.Rules = rules
	return &setupstep.Step{
		Action: setupstep.Change,
		Kind:   kindPolicy,
		Name:   name,
		Detail: strings.Join(strings.Fields(rules), " "),
		Do: func(ctx context.Context) error {
			_, _, err := c.acl.PolicyUpdate(policy, writing(ctx))
			return c.written(kindPolicy, name, err)
		},
	}, nil
}

// roleStep compares the role of this package, which links to the policy with its name.
func (c *Client) roleStep(role *api.ACLRole, name string) *setupstep.Step {
	link := &api.ACLRolePolicyLink{Name: name}
	if role == nil {
		return &setupstep.Step{
			Action: setupstep.Create,
			Kind:   kindRole,
			Name:   name,
			Detail: "has the policy " + name,
			Do: func(ctx context.Context) error {
				_, _, err := c.acl.RoleCreate(&api.ACLRole{
					Name:        name,
					Description: "Tasks of a namespace of berth. " + mark,
					Policies:    []*api.ACLRolePolicyLink{link},
				}, writing(ctx))
				return c.written(kindRole, name, err)
			},
		}
	}
	if links(role, name) {
		return kept(kindRole, name, role.Description)
	}
	changed := *role
	changed.Policies = append(slices.Clone(role.Policies), link)
	return &setupstep.Step{
		Action: setupstep.Change,
		Kind:   kindRole,
		Name:   name,
		Detail: "lacks the policy " + name,
		Do: func(ctx context.Context) error {
			_, _, err := c.acl.RoleUpdate(&changed, writing(ctx))
			return c.written(kindRole, name, err)
		},
	}
}

func hasRights(r *api.ACLRole) bool {
	return len(r.Policies)+len(r.ServiceIdentities)+len(r.NodeIdentities)+len(r.TemplatedPolicies) > 0
}

func links(r *api.ACLRole, policy string) bool {
	return slices.ContainsFunc(r.Policies, func(l *api.ACLRolePolicyLink) bool { return l.Name == policy })
}

// find returns the first element that fits, or nil.
func find[T any](all []*T, fits func(*T) bool) *T {
	at := slices.IndexFunc(all, fits)
	if at < 0 {
		return nil
	}
	return all[at]
}
