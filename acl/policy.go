package acl

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"berth/internal/conf"
	"berth/structs"
)

// The most that a policy may have.
const (
	MaxPolicyBytes = 64 << 10 // of its text
	maxRules       = 1000
	maxPattern     = 256 // bytes of a name or pattern
)

// Policy is a policy as its text says it, in HCL or its JSON form.
type Policy struct {
	Namespaces  []*NamespaceRule `hcl:"namespace,block"`
	HostVolumes []*Rule          `hcl:"host_volume,block"` // what jobs may do with them
	NodePools   []*Rule          `hcl:"node_pool,block"`

	// These blocks give rights on objects that have no names in policies.
	Node     *Level `hcl:"node,block"`
	Agent    *Level `hcl:"agent,block"`
	Operator *Level `hcl:"operator,block"`
	Quota    *Level `hcl:"quota,block"`
	Plugin   *Level `hcl:"plugin,block"`
}

// Rule is what a policy gives on the objects whose names match a pattern, in which each * stands for any
// number of characters.
type Rule struct {
	Pattern      string       `hcl:",label"`
	Policy       string       `hcl:"policy"` // a shorthand for capabilities, or deny
	Capabilities []Capability `hcl:"capabilities"`
	Range        hcl.Range    `hcl:",range"`
}

// NamespaceRule is what a policy gives in the namespaces whose names match a pattern.
type NamespaceRule struct {
	Rule
	Variables *VariablesRule `hcl:"variables,block"`
	// Volumes decide about the volumes whose IDs match, in place of the csi capabilities of the namespace,
	// for more or for less.
	Volumes []*Rule `hcl:"volume,block"`
}

// VariablesRule is what a policy gives on the variables of a namespace, by path.
type VariablesRule struct {
	Paths []*Rule `hcl:"path,block"`
}

// Level is what a policy gives on all objects of a kind.
type Level struct {
	Policy string    `hcl:"policy,required"` // read, write or deny; for plugins list, read or deny
	Range  hcl.Range `hcl:",range"`
}

// Parse reads the text of a policy, in HCL or JSON. name is the name of the policy or of its file in
// messages. The error is invalid and has each fault with its place.
func Parse(name, text string) (*Policy, error) {
	if len(text) > MaxPolicyBytes {
		return nil, structs.Invalidf("%s: the policy has %d bytes; expected at most %d",
			name, len(text), MaxPolicyBytes)
	}

	if strings.HasPrefix(strings.TrimSpace(text), "{") && !strings.HasSuffix(name, ".json") {
		name += ".json" // the syntax goes by the name, and no block of HCL begins like this
	}
	body, diags := conf.Parse(name, []byte(text))
	if diags.HasErrors() {
		return nil, conf.Error(diags)
	}

	p := &Policy{}
	diags = conf.DecodeBody(body, nil, p)
	if diags.HasErrors() {
		return nil, conf.Error(diags)
	}

	faults := p.check()
	if len(faults) > 0 {
		return nil, conf.Error(faults)
	}
	return p, nil
}

// levels returns the kinds without names, with nil for each that the policy leaves out.
func (p *Policy) levels() map[kind]*Level {
	return map[kind]*Level{
		kindNode:     p.Node,
		kindAgent:    p.Agent,
		kindOperator: p.Operator,
		kindQuota:    p.Quota,
		kindPlugin:   p.Plugin,
	}
}

// check returns the faults of a policy that the grammar of its blocks does not show.
func (p *Policy) check() hcl.Diagnostics {
	c := &checker{}
	for _, r := range p.Namespaces {
		c.namespace(r)
	}

	c.rules(hostVolumeFamily, p.HostVolumes)
	c.rules(nodePoolFamily, p.NodePools)

	levels := p.levels()
	for _, k := range slices.Sorted(maps.Keys(levels)) {
		c.level(k, levels[k])
	}

	if c.count > maxRules {
		c.fault(hcl.Range{}, "the policy has %d rules; expected at most %d", c.count, maxRules)
	}
	if c.count == 0 {
		c.fault(hcl.Range{}, "the policy has no rule; expected at least one block, such as namespace or node")
	}
	return c.faults
}

// checker collects the faults of a policy.
type checker struct {
	faults hcl.Diagnostics
	count  int // of rules
}

func (c *checker) fault(at hcl.Range, format string, args ...any) {
	c.faults = append(c.faults, conf.Fault(at, format, args...))
}

func (c *checker) namespace(r *NamespaceRule) {
	given := r.Policy != "" || len(r.Capabilities) > 0 || r.Variables != nil || len(r.Volumes) > 0
	if !given {
		c.fault(r.Range, "namespace %q: the rule gives and denies nothing; "+
			"expected policy, capabilities, variables or volume", r.Pattern)
	}

	c.rule(namespaceFamily, &r.Rule)
	c.rules(volumeFamily, r.Volumes)
	if r.Variables != nil {
		c.rules(variablesFamily, r.Variables.Paths)
	}
}

// rules checks rules of a family, each of which has to say something.
func (c *checker) rules(f family, rules []*Rule) {
	for _, r := range rules {
		if r.Policy == "" && len(r.Capabilities) == 0 {
			c.fault(r.Range, "%s %q: the rule gives and denies nothing; expected %s", f.kind, r.Pattern, f.arguments())
		}
		c.rule(f, r)
	}
}

func (c *checker) rule(f family, r *Rule) {
	c.count++
	if r.Pattern == "" || len(r.Pattern) > maxPattern {
		c.fault(r.Range, "%s: the name has %d bytes; expected 1 to %d", f.kind, len(r.Pattern), maxPattern)
	}

	_, known := f.shorthands[r.Policy]
	if r.Policy != "" && !known && (r.Policy != string(Deny) || len(f.shorthands) == 0) {
		c.fault(r.Range, "%s %q: policy %q is unknown; expected %s", f.kind, r.Pattern,
			structs.Cut(r.Policy, structs.MaxQuoted), f.arguments())
	}

	for _, given := range r.Capabilities {
		if given != Deny && !slices.Contains(f.all, given) {
			c.fault(r.Range, "%s %q: capability %q is unknown; expected of deny, %s", f.kind, r.Pattern,
				structs.Cut(string(given), structs.MaxQuoted), join(f.all))
		}
	}
}

func (c *checker) level(k kind, l *Level) {
	if l == nil {
		return
	}

	c.count++
	if !slices.Contains(k.policies(), l.Policy) {
		c.fault(l.Range, "%s: policy %q is unknown; expected %s", k,
			structs.Cut(l.Policy, structs.MaxQuoted), strings.Join(k.policies(), ", "))
	}
}

// arguments says in a message what a rule of the family may have.
func (f family) arguments() string {
	if len(f.shorthands) == 0 {
		return "capabilities"
	}
	names := slices.Sorted(maps.Keys(f.shorthands))
	return "policy = " + strings.Join(append(names, string(Deny)), ", ") + ", or capabilities"
}

func join(all []Capability) string {
	texts := make([]string, 0, len(all))
	for _, c := range all {
		texts = append(texts, string(c))
	}
	return strings.Join(texts, ", ")
}
