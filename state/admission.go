package state

import (
	"iter"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/admission"
)

// AdmissionRule returns a rule, nil if there is none.
func AdmissionRule(tx mvcc.Reader, name string) *admission.Rule {
	return schema.AdmissionRules.Get(tx, name)
}

// AdmissionRules yields the rules by name.
func AdmissionRules(tx mvcc.Reader) iter.Seq[*admission.Rule] { return schema.AdmissionRules.Scan(tx) }

// AdmissionRulePut creates or replaces a rule. Which expressions compile is for the leader to decide before
// the log: here the bounds alone are checked, so that each version of the language stores the same rules.
func AdmissionRulePut(tx *mvcc.WriteTx, p *admission.RulePutRequest) error {
	err := CheckAdmissionRule(p.Rule)
	if err != nil {
		return err
	}

	count := schema.AdmissionRules.Len(tx)
	if AdmissionRule(tx, p.Rule.Name) == nil && count >= admission.MaxRules {
		return structs.Preconditionf("there are %d admission rules, the most that the servers store; "+
			"delete some of them first", count)
	}
	schema.AdmissionRules.Put(tx, p.Rule)
	return nil
}

// AdmissionRuleDelete deletes a rule. The error is not-found.
func AdmissionRuleDelete(tx *mvcc.WriteTx, p *admission.RuleDeleteRequest) error {
	row := AdmissionRule(tx, p.Name)
	if row == nil {
		return NoAdmissionRule(p.Name)
	}
	schema.AdmissionRules.Delete(tx, row)
	return nil
}

// NoAdmissionRule returns the error of a rule that does not exist.
func NoAdmissionRule(name string) error {
	return structs.NotFoundf("there is no admission rule %q", structs.Cut(name, structs.MaxQuoted))
}

// CheckAdmissionRule returns an error unless a rule is complete and within its bounds. The leader checks it
// before the log, and AdmissionRulePut again: an entry may come from another version of berth.
func CheckAdmissionRule(r *admission.Rule) error {
	if r == nil || !validAccessName(r.Name) {
		return structs.Invalidf("the admission rule has no valid name: %s", accessNameForm)
	}

	fault := admissionFault(r)
	if fault != nil {
		return structs.Invalidf("admission rule %q: %v", r.Name, fault)
	}
	return nil
}

func admissionFault(r *admission.Rule) error {
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

// checkAdmissionRules checks the invariants of the rules.
func checkAdmissionRules(c *schema.Report) {
	schema.CheckIndexes(c, schema.AdmissionRules)
	for r := range AdmissionRules(c) {
		c.Want(CheckAdmissionRule(r) == nil, "admission rule %q is not within its bounds", r.Name)
	}
}
