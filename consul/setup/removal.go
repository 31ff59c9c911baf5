package setup

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/internal/setupstep"
	"berth/structs"
)

// PlanRemoval returns the steps that delete all that this package has made. The error is a conflict if
// objects of others would lose something with them.
func (c *Client) PlanRemoval(ctx context.Context) ([]*setupstep.Step, error) {
	p, err := c.read(ctx)
	if err != nil {
		return nil, err
	}

	var steps []*setupstep.Step
	remove := func(kind, name, detail string, call func(*api.WriteOptions) (*api.WriteMeta, error)) {
		steps = append(steps, &setupstep.Step{
			Action: setupstep.Delete,
			Kind:   kind,
			Name:   name,
			Detail: detail,
			Do: func(ctx context.Context) error {
				_, err := call(writing(ctx))
				if err != nil {
					return c.explain("deleting the "+kind+" "+name, err)
				}
				return nil
			},
		})
	}

	for _, r := range p.rules {
		if ours(r.Description) {
			remove(kindRule, ruleName(r), "", func(o *api.WriteOptions) (*api.WriteMeta, error) {
				return c.acl.BindingRuleDelete(r.ID, o)
			})
		}
	}
	if m := p.method; m != nil && ours(m.Description) {
		const end = "the tokens of its logins end"
		remove(kindMethod, m.Name, end, func(o *api.WriteOptions) (*api.WriteMeta, error) {
			return c.acl.AuthMethodDelete(m.Name, o)
		})
	} else if m != nil {
		steps = append(steps, kept(kindMethod, m.Name, m.Description))
	}
	for _, r := range p.roles {
		if madeFor(r.Name, r.Description) {
			remove(kindRole, r.Name, "", func(o *api.WriteOptions) (*api.WriteMeta, error) {
				return c.acl.RoleDelete(r.ID, o)
			})
		}
	}
	for _, e := range p.policies {
		if madeFor(e.Name, e.Description) {
			remove(kindPolicy, e.Name, "", func(o *api.WriteOptions) (*api.WriteMeta, error) {
				return c.acl.PolicyDelete(e.ID, o)
			})
		}
	}
	return steps, c.checkUses(ctx, p)
}

// madeFor reports whether a role or a policy is of this package, for the tasks of any namespace.
func madeFor(name, description string) bool {
	return strings.HasPrefix(name, RolePrefix) && ours(description)
}

// checkUses returns an error if objects of others need what is to be deleted: Consul deletes the binding
// rules of a method with it, and takes roles and policies from all that has them.
func (c *Client) checkUses(ctx context.Context, p *present) error {
	var uses []string
	if p.method != nil && ours(p.method.Description) {
		for _, r := range p.rules {
			if !ours(r.Description) {
				uses = append(uses, fmt.Sprintf("the binding rule %s (%s)", r.ID, ruleName(r)))
			}
		}
	}

	for _, e := range p.policies {
		if !madeFor(e.Name, e.Description) {
			continue
		}
		for _, r := range p.roles {
			if !madeFor(r.Name, r.Description) && links(r, e.Name) {
				uses = append(uses, fmt.Sprintf("the role %s, which has the policy %s", r.Name, e.Name))
			}
		}
		err := c.addTokens(ctx, &uses, "the policy "+e.Name, api.ACLTokenFilterOptions{Policy: e.ID})
		if err != nil {
			return err
		}
	}
	for _, r := range p.roles {
		if !madeFor(r.Name, r.Description) {
			continue
		}
		err := c.addTokens(ctx, &uses, "the role "+r.Name, api.ACLTokenFilterOptions{Role: r.ID})
		if err != nil {
			return err
		}
	}
	if len(uses) > 0 {
		return structs.Conflictf("nothing is deleted, because others need it; delete or change first:\n  %s",
			strings.Join(uses, "\n  "))
	}
	return nil
}

// addTokens adds the tokens with a right that no login has made.
func (c *Client) addTokens(
	ctx context.Context, uses *[]string, right string, f api.ACLTokenFilterOptions,
) error {
	all, _, err := c.acl.TokenListFiltered(f, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return c.explain("reading the tokens with "+right, err)
	}
	for _, t := range all {
		if t.AuthMethod != consul.DefaultAuthMethod {
			*uses = append(*uses, fmt.Sprintf("the token %s, which has %s", t.AccessorID, right))
		}
	}
	return nil
}
