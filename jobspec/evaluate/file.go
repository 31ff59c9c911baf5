package jobspec

import (
	"bytes"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth/internal/hclconf"
)

// jsonFile is the body of a job file in JSON, before its evaluation. The other parts of its blocks of locals
// are arguments.
type jsonFile struct {
	variableFile
	Locals []*struct{} `hcl:"locals,block"`
	jobFile
}

// syntax is the syntax of a job file.
type syntax struct {
	body   *hclsyntax.Body
	text   []byte                // in which the ranges of expressions count
	locate func(hcl.Diagnostics) // moves ranges from text to the file
	faults hcl.Diagnostics       // of values, which are unknown
}

// parseSyntax reads the syntax of a job file. A file whose first character is a brace is JSON.
func parseSyntax(filename string, src []byte) (*syntax, hcl.Diagnostics) {
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) || strings.HasSuffix(filename, ".json") {
		f, diags := hclconf.ParseJSON(filename, src, hclconf.JSONForm{
			Shape: jsonFile{},
			Plain: plainEnv,
		})
		if diags.HasErrors() {
			return nil, diags
		}
		return &syntax{
			body:   f.Body,
			text:   f.Text,
			locate: f.Locate,
			faults: f.Faults,
		}, diags
	}

	body, diags := hclconf.Parse(filename, plainEnv(src))
	if diags.HasErrors() {
		return nil, diags
	}

	return &syntax{
		body:   body.(*hclsyntax.Body),
		text:   src,
		locate: func(hcl.Diagnostics) {},
	}, diags
}

// prepare returns the body of a file without variables, locals and dynamic blocks, and the values for its
// evaluation.
func (f *syntax) prepare(filename string, in *Inputs) (hcl.Body, *scope) {
	s := newScope(filename, f.body, in)
	s.diags = append(s.diags, f.faults...)
	var locals hclsyntax.Blocks
	rest := *f.body
	rest.Blocks = nil
	variables := rest
	variables.Attributes = nil
	for _, b := range f.body.Blocks {
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
	_ = hclsyntax.Walk(f.body, &preparation{
		src:    f.text,
		budget: s.budget,
	})
	s.readVariables(&variables, in)
	s.readLocals(declared)
	x := expander{
		budget: s.budget,
		unset:  s.unset,
	}
	expanded := x.body(&rest, s.context(), false)
	s.diags = append(s.diags, x.diags...)
	return expanded, s
}
