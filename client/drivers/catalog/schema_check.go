package catalog

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"berth/structs/nodecalls"
)

// Check returns the faults that Decode would return, for a configuration as the job has it. A string with a
// reference stands for a string that only the node knows: it fits where some string does.
func (s *Schema) Check(config map[string]any) error {
	if !nodecalls.HasReference(config) {
		_, err := s.Decode(config)
		return err
	}

	// A string without a reference must not be read as a template either, because the node does not.
	var t texts
	body := t.replaceIn(config)
	_, err := s.decode(body, &hcl.EvalContext{
		Variables: map[string]cty.Value{"text": cty.TupleVal(t)},
	})
	return err
}

// texts has the strings of a configuration whose strings are evaluated as templates. Each is replaced by the
// template of its element, so that none of its characters has a meaning. One with a reference is unknown.
type texts []cty.Value

// replace returns a value whose strings are templates. Numbers and truth values stay.
func (t *texts) replace(value any) any {
	switch v := value.(type) {
	case string:
		return t.add(v)
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = t.replace(inner)
		}
		return list
	case map[string]any:
		return t.replaceIn(v)
	}
	return value
}

// replaceIn is replace for the values of a map. A name without a template sign stays: hcldec looks for the
// names of the schema.
func (t *texts) replaceIn(values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for key, inner := range values {
		if strings.Contains(key, "${") || strings.Contains(key, "%{") { // keys of maps are templates, too
			key = t.template(cty.StringVal(key))
		}
		out[key] = t.replace(inner)
	}
	return out
}

// add returns the template that stands for a text. An unknown text passes each check that does not need its
// characters.
func (t *texts) add(text string) string {
	if nodecalls.HasReference(text) {
		return t.template(cty.UnknownVal(cty.String))
	}
	return t.template(cty.StringVal(text))
}

// template keeps a value and returns the template that evaluates to it.
func (t *texts) template(value cty.Value) string {
	*t = append(*t, value)
	return fmt.Sprintf("${text[%d]}", len(*t)-1)
}
