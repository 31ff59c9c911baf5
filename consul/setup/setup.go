// Package setup prepares a Consul for the logins of workloads: the auth method, its binding rules, and a role
// and a policy for the tasks of a namespace. It compares Consul with what is needed, and returns the steps.
//
// An object that it makes says so in its description. It changes and deletes only objects with that mark, and
// an operator may give the role and the policy other rights: they stay.
package setup

import (
	"context"
	"strings"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/internal/setupstep"
	"berth/structs"
)

const (
	// Audience is the one that an identity needs for a login.
	Audience = "consul.io"
	// RolePrefix is before the namespace in the name of the role and the policy of its tasks.
	RolePrefix = "nomad-tasks-"
	// mark ends the description of all objects of this package.
	mark = `Made by "berth setup consul".`
	// maxPolicyName is the bound of Consul.
	maxPolicyName = 128
)

// defaultRules let tasks find services and nothing else: keys often have secrets of others.
const defaultRules = `service_prefix "" { policy = "read" }
node_prefix    "" { policy = "read" }
`

// Wanted describes the objects that Consul shall have. An empty field leaves an existing object's.
type Wanted struct {
	Namespace string // whose tasks get the role
	JWKSURL   string // of the public keys of the cluster
	JWKSCA    string // the authority of that URL, in PEM
	Rules     string // of the policy of the tasks
	// DefaultURL returns the JWKSURL of a method that is not there yet.
	DefaultURL func(ctx context.Context) (string, error)
}

// present has the objects of a Consul.
type present struct {
	method   *api.ACLAuthMethod // nil: it is not there
	rules    []*api.ACLBindingRule
	roles    []*api.ACLRole
	policies []*api.ACLPolicyListEntry
}

// Plan returns the steps that give Consul what is wanted, in their order. The error is a conflict where an
// object of somebody else is in the way.
func (c *Client) Plan(ctx context.Context, w *Wanted) ([]*setupstep.Step, error) {
	name := RolePrefix + w.Namespace
	if len(name) > maxPolicyName {
		return nil, structs.Invalidf("the name of the policy, %s, has %d bytes; Consul takes %d: "+
			"choose a shorter namespace", name, len(name), maxPolicyName)
	}

	p, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	method, err := c.methodStep(ctx, p.method, w)
	if err != nil {
		return nil, err
	}
	tasks, err := c.taskSteps(ctx, p, name, w.Rules)
	if err != nil {
		return nil, err
	}

	// The rules are last, so no task logs in before its role is there.
	steps := append([]*setupstep.Step{method}, tasks...)
	for _, rule := range neededRules() {
		steps = append(steps, c.ruleStep(p.rules, rule))
	}
	return steps, nil
}

// read returns the objects that Consul has.
func (c *Client) read(ctx context.Context) (*present, error) {
	p := &present{}
	query := (&api.QueryOptions{}).WithContext(ctx)
	var err error
	p.method, _, err = c.acl.AuthMethodRead(consul.DefaultAuthMethod, query)
	if err == nil && p.method != nil {
		p.rules, _, err = c.acl.BindingRuleList(consul.DefaultAuthMethod, query)
	}
	if err == nil {
		p.roles, _, err = c.acl.RoleList(query)
	}
	if err == nil {
		p.policies, _, err = c.acl.PolicyList(query)
	}
	if err != nil {
		return nil, c.explain("reading the ACLs of Consul", err)
	}
	return p, nil
}

// ours reports whether this package has made an object with a description.
func ours(description string) bool { return strings.HasSuffix(description, mark) }

// kept returns the step of an object that stays.
func kept(kind, name, description string) *setupstep.Step {
	s := &setupstep.Step{Action: setupstep.Keep, Kind: kind, Name: name}
	if !ours(description) {
		s.Detail = "made by others, and stays after -destroy"
	}
	return s
}
