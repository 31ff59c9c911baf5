package evaluate

import (
	"bytes"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth/internal/conf"
)

// File is the syntax of a job file.
type File struct {
	body *hclsyntax.Body
	text []byte // in which the ranges of expressions count
	// Locate moves the ranges of diagnostics from the text of strings to the file.
	Locate func(hcl.Diagnostics)
	faults hcl.Diagnostics // of values, which are unknown
}

// Parse reads the syntax of a job file. A file whose first character is a brace is JSON, and the struct shape
// says its blocks.
func Parse(filename string, src []byte, shape any) (*File, hcl.Diagnostics) {
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) || strings.HasSuffix(filename, ".json") {
		f, diags := conf.ParseJSON(filename, src, conf.JSONForm{
			Shape: shape,
			Plain: plainEnv,
		})
		if diags.HasErrors() {
			return nil, diags
		}
		return &File{
			body:   f.Body,
			text:   f.Text,
			Locate: f.Locate,
			faults: f.Faults,
		}, diags
	}

	// The text keeps its length, so the text of a placeholder is read from the source that the user sees.
	body, diags := conf.Parse(filename, plainEnv(src))
	if diags.HasErrors() {
		return nil, diags
	}

	return &File{
		body:   body.(*hclsyntax.Body),
		text:   src,
		Locate: func(hcl.Diagnostics) {},
	}, diags
}

// Prepare returns the body of a file without variables, locals and dynamic blocks, and the values for its
// evaluation.
func (f *File) Prepare(filename string, in *Inputs) (hcl.Body, *Scope) {
	s := newScope(filename, f.body, in)
	s.diags = append(s.diags, f.faults...)
	var locals hclsyntax.Blocks
	rest := *f.body
	// The copies share the expressions, so the preparation below replaces them in all.
	rest.Blocks = nil
	variables := rest
	// An argument outside of all blocks is a fault of the job, and not of the variables.
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

	// The order of the steps below matters: a local may use variables, and a dynamic block may use both.
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
	expanded := x.body(&rest, s.Context(), false)
	s.diags = append(s.diags, x.diags...)
	return expanded, s
}

// faults collects the faults of a file.
type faults struct{ diags hcl.Diagnostics }

// fault adds a fault. The reading goes on, so that a user sees all faults at once.
func (f *faults) fault(at hcl.Range, format string, args ...any) {
	f.diags = append(f.diags, conf.Fault(at, format, args...))
}
