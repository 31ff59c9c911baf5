package catalog

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"

	"berth/client/drivers/protocol/hclspec"
	"berth/structs"
)

// Schema is the schema that a plugin announces, ready to decode configurations. A configuration is a map as
// the agent's and a job's HCL parser make it. The result is a map in msgpack, in the form that the plugin
// expects. A Schema is safe for concurrent use, because nothing changes it after ParseSchema.
type Schema struct{ spec hcldec.Spec }

// ParseSchema checks a plugin's announcement. A nil spec allows no settings.
func ParseSchema(announced *hclspec.Spec) (*Schema, error) {
	if announced == nil {
		return &Schema{hcldec.ObjectSpec{}}, nil
	}
	p := parser{}
	spec := p.spec(announced, "", 0)
	if len(p.faults) > 0 {
		return nil, fmt.Errorf("schema: %w", errors.Join(p.faults...))
	}
	return &Schema{spec}, nil
}

// Decode returns the configuration in msgpack. Each fault is an invalid error that names the setting. Strings
// are taken as they are: they hold no templates.
func (s *Schema) Decode(config map[string]any) ([]byte, error) {
	value, err := s.decode(config, nil) // nil: strings are no templates
	if err != nil {
		return nil, err
	}

	// With the type of the spec, a value of any type would be wrapped with its type. Plugins read plain
	// msgpack.
	return msgpack.Marshal(value, value.Type())
}

// decode evaluates the strings of a configuration as templates, unless ctx is nil.
func (s *Schema) decode(config map[string]any, ctx *hcl.EvalContext) (value cty.Value, err error) {
	defer func() { // hcldec panics for some combinations of specs, which only it knows
		if r := recover(); r != nil {
			err = structs.Internalf("the schema cannot be used: %v", r)
		}
	}()

	// A missing block is an empty one: its defaults still apply.
	if config == nil {
		config = map[string]any{}
	}

	// hcldec reads only the bodies of HCL files, and JSON is the form of them that a map converts to.
	text, err := json.Marshal(listMaps(s.spec, config))
	if err != nil {
		return cty.NilVal, structs.Invalidf("config: %w", err)
	}

	file, diags := hcljson.Parse(text, "config")
	if diags.HasErrors() {
		return cty.NilVal, invalid(diags)
	}

	// hcldec reports settings that the spec does not have, and missing ones.
	value, diags = hcldec.Decode(file.Body, s.spec, ctx)
	if diags.HasErrors() {
		return cty.NilVal, invalid(diags)
	}

	return value, nil
}

// invalid joins the faults. The positions are left out: they are in the text in JSON, which nobody wrote.
func invalid(diags hcl.Diagnostics) error {
	var faults []error
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			faults = append(faults, structs.Invalidf("config: %s: %s", d.Summary, d.Detail))
		}
	}
	return errors.Join(faults...)
}
