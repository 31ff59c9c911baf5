package authmethod

import (
	"iter"
	"strings"

	"berth/internal/rowfilter"
	"berth/structs"
	"berth/structs/access"
)

// CheckSelector returns an error of kind invalid unless an expression can be evaluated.
func CheckSelector(expression string) error {
	_, err := Matches(expression, &Claims{})
	return err
}

// Matches reports whether claims match the selector of a rule. A value that the login lacks is equal to none.
// The error is invalid if the selector is no expression over value and list.
func Matches(expression string, c *Claims) (bool, error) {
	if expression == "" {
		return true, nil
	}

	f, err := rowfilter.New(expression)
	if err != nil {
		return false, structs.Invalidf("Selector %w", err)
	}
	ok, err := f.Match(c)
	if err != nil {
		return false, structs.Invalidf("Selector %w", err)
	}
	return ok, nil
}

// Given is what the rules of a method give to a login.
type Given struct {
	Management bool
	Roles      []string // names or IDs
	Policies   []string // names
	Matched    []string // the IDs of the rules
}

// DecideRights returns what rules give. A rule that does not fit the claims gives nothing.
func DecideRights(rules iter.Seq[*access.BindingRule], c *Claims) (g Given) {
	names := c.names()
	for r := range rules {
		ok, err := Matches(r.Selector, c)
		if err != nil || !ok {
			continue
		}
		name, err := Expand(r.BindName, names)
		if err != nil {
			continue
		}

		g.Matched = append(g.Matched, r.ID)
		switch r.BindType {
		case access.BindManagement:
			g.Management = true
		case access.BindRole:
			g.Roles = append(g.Roles, name)
		case access.BindPolicy:
			g.Policies = append(g.Policies, name)
		}
	}
	return g
}

// names returns the values by the names that texts have for them.
func (c *Claims) names() map[string]string {
	names := map[string]string{}
	for name, v := range c.Value {
		names["value."+name] = v
	}
	return names
}

// TokenName returns the name of the token of a login. A value that the login lacks is empty in it.
func TokenName(m *access.AuthMethod, c *Claims) string {
	names := c.names()
	names["auth_method_name"] = m.Name
	names["auth_method_type"] = m.Type
	for _, name := range m.Config.ClaimMappings {
		if _, ok := names["value."+name]; !ok {
			names["value."+name] = ""
		}
	}

	format := m.TokenNameFormat
	if format == "" {
		format = access.DefaultNameFormat
	}
	name, err := Expand(format, names)
	if err != nil {
		return m.Type + "-" + m.Name
	}
	return structs.Cut(name, maxTokenName)
}

// maxTokenName bounds the name of a token, in bytes. The mark of a cut text comes on top.
const maxTokenName = 250

// CheckBindName returns an error unless a text is a template over values.
func CheckBindName(text string) error {
	return checkTemplate("BindName", text, func(name string) bool {
		return strings.HasPrefix(name,
			"value.")
	})
}

// CheckNameFormat returns an error unless the format of the names of tokens is a template over the method and
// the values of its mappings.
func CheckNameFormat(m *access.AuthMethod) error {
	return checkTemplate("TokenNameFormat", m.TokenNameFormat, func(name string) bool {
		if name == "auth_method_name" || name == "auth_method_type" {
			return true
		}
		for _, mapped := range m.Config.ClaimMappings {
			if name == "value."+mapped {
				return true
			}
		}
		return false
	})
}

func checkTemplate(field, text string, known func(name string) bool) error {
	return walk(text, func(string) {}, func(name string) error {
		if !known(name) {
			return structs.Invalidf("%s has ${%s}, which no login has; ClaimMappings gives the names of ${value.NAME}",
				field, structs.Cut(name, structs.MaxQuoted))
		}
		return nil
	})
}

// Expand replaces each ${NAME} of a text by its value. The error is denied if there is none, and invalid if
// the text is no template.
func Expand(text string, values map[string]string) (string, error) {
	var b strings.Builder
	err := walk(text, func(plain string) { b.WriteString(plain) }, func(name string) error {
		v, ok := values[name]
		if !ok {
			return structs.Deniedf("the login has no %s", structs.Cut(name, structs.MaxQuoted))
		}
		b.WriteString(v)
		return nil
	})
	return b.String(), err
}

// walk calls a function for each plain part of a template and one for each name.
func walk(text string, plain func(string), name func(string) error) error {
	for {
		before, rest, found := strings.Cut(text, "${")
		plain(before)
		if !found {
			return nil
		}

		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			return structs.Invalidf("a template has ${ without }")
		}
		err := name(strings.TrimSpace(inner))
		if err != nil {
			return err
		}
		text = after
	}
}
