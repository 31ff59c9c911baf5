package jobspec

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth/internal/hclconf"
)

// parseExpressions reads the syntax of a job file. It returns the body without variables, locals and dynamic
// blocks, and the context for its evaluation. The context is nil for JSON, whose strings are constants.
func parseExpressions(filename string, src []byte, in *Inputs) (hcl.Body, *scope, hcl.Diagnostics) {
	body, diags := hclconf.Parse(filename, plainEnv(src))
	native, ok := body.(*hclsyntax.Body)
	if diags.HasErrors() || !ok {
		return body, nil, diags
	}
	s := newScope(filename, native, in)
	var locals hclsyntax.Blocks
	rest := *native
	rest.Blocks = nil
	variables := rest
	variables.Attributes = nil
	for _, b := range native.Blocks {
		switch b.Type {
		case "variable":
			variables.Blocks = append(variables.Blocks, b)
		case "locals":
			locals = append(locals, b)
		default:
			rest.Blocks = append(rest.Blocks, b)
		}
	}
	declared := s.declareLocals(locals) // before the expressions become metered ones, which hide their parts
	_ = hclsyntax.Walk(native, &preparation{
		src:    src,
		budget: s.budget,
	})
	s.readVariables(&variables, in)
	s.readLocals(declared)
	x := expander{budget: s.budget}
	expanded := x.body(&rest, s.context(), false)
	s.diags = append(s.diags, x.diags...)
	return expanded, s, diags
}
