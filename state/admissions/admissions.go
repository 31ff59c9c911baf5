// Package admissions has the functions of the state on admission rules. Which expressions compile is for the
// leader to decide before the log: the functions here check the bounds alone, so that they do the same on
// every version of the language.
package admissions

import (
	"iter"
	"strings"

	"berth/internal/mvcc"
	"berth/state/check"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/admission"
)

// Rule returns a rule, nil if there is none.
func Rule(tx mvcc.Reader, name string) *admission.Rule { return schema.AdmissionRules.Get(tx, name) }

// Rules yields the rules by name.
func Rules(tx mvcc.Reader) iter.Seq[*admission.Rule] { return schema.AdmissionRules.Scan(tx) }

// RulePut creates or replaces a rule.
func RulePut(tx *mvcc.WriteTx, p *admission.RulePutRequest) error {
	err := CheckRule(p.Rule)
	if err != nil {
		return err
	}

	count := schema.AdmissionRules.Len(tx)
	if Rule(tx, p.Rule.Name) == nil && count >= admission.MaxRules {
		return structs.Preconditionf("there are %d admission rules, the most that the servers store; "+
			"delete some of them first", count)
	}
	schema.AdmissionRules.Put(tx, p.Rule)
	return nil
}

// RuleDelete deletes a rule. The error is not-found.
func RuleDelete(tx *mvcc.WriteTx, p *admission.RuleDeleteRequest) error {
	row := Rule(tx, p.Name)
	if row == nil {
		return NoRule(p.Name)
	}
	schema.AdmissionRules.Delete(tx, row)
	return nil
}

// NoRule returns the error of a rule that does not exist.
func NoRule(name string) error {
	return structs.NotFoundf("there is no admission rule %q", structs.Cut(name, structs.MaxQuoted))
}

// CheckRule returns an error unless a rule is complete and within its bounds. The leader checks it before the
// log, and RulePut again: an entry may come from another version of berth.
func CheckRule(r *admission.Rule) error {
	if r == nil || !validName(r.Name) {
		return structs.Invalidf("the admission rule has no valid name: " +
			"expected 1 to 128 letters, digits, dashes and underscores")
	}

	fault := faultOf(r)
	if fault != nil {
		return structs.Invalidf("admission rule %q: %v", r.Name, fault)
	}
	return nil
}

func faultOf(r *admission.Rule) error {
	switch {
	case r.On != admission.OnJob && r.On != admission.OnVolume:
		return structs.Invalidf("On is %q; expected job or volume", structs.Cut(r.On, structs.MaxQuoted))
	case r.Mode != admission.ModeWarn && r.Mode != admission.ModeDeny:
		return structs.Invalidf("Mode is %q; expected warn or deny", structs.Cut(r.Mode, structs.MaxQuoted))
	case r.Expression == "" || len(r.Expression) > admission.MaxExpression:
		return structs.Invalidf("Expression has %d bytes; expected 1 to %d", len(r.Expression),
			admission.MaxExpression)
	case r.Message == "" || len(r.Message) > admission.MaxText:
		return structs.Invalidf("Message has %d bytes; expected 1 to %d", len(r.Message), admission.MaxText)
	case len(r.Description) > admission.MaxText:
		return structs.Invalidf("Description has %d bytes; expected at most %d", len(r.Description),
			admission.MaxText)
	case len(r.Namespaces) > admission.MaxNamespaces:
		return structs.Invalidf("Namespaces has %d patterns; expected at most %d", len(r.Namespaces),
			admission.MaxNamespaces)
	}

	for _, pattern := range r.Namespaces {
		if pattern == "" || len(pattern) > admission.MaxNamePattern {
			return structs.Invalidf("Namespaces has a pattern of %d bytes; expected 1 to %d", len(pattern),
				admission.MaxNamePattern)
		}
	}
	return nil
}

func validName(name string) bool {
	invalid := func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, invalid)
}

// CheckRows checks the invariants of the rules.
func CheckRows(c *check.Report) {
	check.Indexes(c, schema.AdmissionRules)
	for r := range Rules(c) {
		c.Want(CheckRule(r) == nil, "admission rule %q is not within its bounds", r.Name)
	}
}
