package jobspec

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"berth/internal/hclconf"
	"berth/structs"
)

// Every submitter of a job can write a file, so the evaluation of a file is bounded: no function and no loop
// multiplies values, and the size and the number of uses of a value have bounds.
const (
	maxValue = structs.MaxVariable     // bytes and elements of one variable or local
	maxUses  = structs.MaxVariableUses // of variables and locals in one file
)

var functions = map[string]function.Function{
	"abs":       stdlib.AbsoluteFunc,
	"coalesce":  stdlib.CoalesceFunc,
	"concat":    stdlib.ConcatFunc,
	"length":    stdlib.LengthFunc,
	"lower":     stdlib.LowerFunc,
	"max":       stdlib.MaxFunc,
	"merge":     stdlib.MergeFunc,
	"min":       stdlib.MinFunc,
	"split":     stdlib.SplitFunc,
	"trimspace": stdlib.TrimSpaceFunc,
	"upper":     stdlib.UpperFunc,
}

// parseExpressions reads the syntax of a job file. It returns the body without variables and locals, and the
// context for its evaluation. The context is nil for JSON, whose strings are constants.
func parseExpressions(filename string, src []byte) (hcl.Body, *hcl.EvalContext, hcl.Diagnostics) {
	body, diags := hclconf.Parse(filename, plainEnv(src))
	native, ok := body.(*hclsyntax.Body)
	if diags.HasErrors() || !ok {
		return body, nil, diags
	}
	diags = keepPlaceholders(native, src)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	s := scope{
		vars:   map[string]cty.Value{},
		locals: map[string]cty.Value{},
	}
	var rest hclsyntax.Blocks
	for _, b := range native.Blocks {
		switch b.Type {
		case "variable":
			s.variable(b)
		case "locals":
			s.local(b)
		default:
			rest = append(rest, b)
		}
	}
	native.Blocks = rest
	return native, s.context(), s.diags
}

var envPlaceholder = regexp.MustCompile(`\$\{[ \t]*env[ \t]+"([A-Za-z_][A-Za-z0-9_]*)"[ \t]*\}`)

// plainEnv replaces `${env "X"}`, which is not HCL2, by a traversal of the same length, so that positions
// stay the same. keepPlaceholders takes the text of the string from the source.
func plainEnv(src []byte) []byte {
	out := bytes.Clone(src)
	for _, m := range envPlaceholder.FindAllSubmatchIndex(src, -1) {
		if m[0] > 0 && src[m[0]-1] == '$' {
			continue // $${ is an escape
		}
		n := copy(out[m[0]:], "${env.")
		n += copy(out[m[0]+n:], src[m[2]:m[3]])
		for i := m[0] + n; i < m[1]-1; i++ {
			out[i] = '_'
		}
	}
	return out
}

// atRuntime reports whether the scheduler, or the node that runs the task, resolves a traversal.
func atRuntime(root string) bool {
	switch root {
	case "attr", "node", "meta", "env", "device":
		return true
	}
	return strings.HasPrefix(root, "NOMAD_") ||
		strings.HasPrefix(root, "BERTH_") ||
		root == "CSI_ENDPOINT"
}

// keepPlaceholders replaces runtime placeholders in templates by literal text. It rejects expressions by
// which a small file could produce a large value.
func keepPlaceholders(body *hclsyntax.Body, src []byte) hcl.Diagnostics {
	uses := 0
	return hclsyntax.VisitAll(body, func(node hclsyntax.Node) hcl.Diagnostics {
		var found faults
		switch n := node.(type) {
		case *hclsyntax.TemplateExpr:
			for i, part := range n.Parts {
				n.Parts[i] = literalText(part, src)
			}
		case *hclsyntax.TemplateWrapExpr:
			n.Wrapped = literalText(n.Wrapped, src)
		case *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
			found.fault(node.Range(), "loops are not supported by berth yet")
		case *hclsyntax.ScopeTraversalExpr:
			uses++
			if uses == maxUses+1 {
				found.fault(node.Range(), "too many uses of variables; expected at most %d",
					maxUses)
			}
		}
		return found.diags
	})
}

// literalText returns the literal text of a runtime placeholder, and another expression unchanged.
func literalText(e hclsyntax.Expression, src []byte) hclsyntax.Expression {
	t, ok := e.(*hclsyntax.ScopeTraversalExpr)
	if !ok || !atRuntime(t.Traversal.RootName()) {
		return e
	}
	from := t.SrcRange.Start.Byte
	to := t.SrcRange.End.Byte
	text := "${" + string(src[from:to]) + "}"
	return &hclsyntax.LiteralValueExpr{
		Val:      cty.StringVal(text),
		SrcRange: t.SrcRange,
	}
}

// scope has the variables and locals of a file.
type scope struct {
	faults
	vars, locals map[string]cty.Value
}

func (s *scope) context() *hcl.EvalContext {
	return &hcl.EvalContext{
		Functions: functions,
		Variables: map[string]cty.Value{
			"var":   cty.ObjectVal(s.vars),
			"local": cty.ObjectVal(s.locals),
		},
	}
}

// variable reads `variable "x" { default = ... }`. It ignores type and description.
func (s *scope) variable(b *hclsyntax.Block) {
	if len(b.Labels) != 1 {
		s.fault(b.TypeRange, "block \"variable\" has %d labels; expected variable \"name\" { ... }",
			len(b.Labels))
		return
	}
	name := b.Labels[0]
	for argument, a := range b.Body.Attributes {
		switch argument {
		case "default", "type", "description", "sensitive":
		default:
			s.fault(a.NameRange, "unsupported argument %q; expected one of: default, description, sensitive, type",
				argument)
		}
	}
	for _, in := range b.Body.Blocks {
		s.fault(in.TypeRange, "%q is not supported by berth yet", in.Type)
	}
	if _, twice := s.vars[name]; twice {
		s.fault(b.TypeRange, "duplicate variable %q; expected each name once", name)
	}
	def, ok := b.Body.Attributes["default"]
	if !ok {
		s.fault(b.TypeRange, "variable %q has no default; "+
			"values from outside the file are not supported by berth yet", name)
		return
	}
	s.vars[name] = s.value(def, &hcl.EvalContext{Functions: functions})
}

// local reads the values of a locals block. Each may use the values above it.
func (s *scope) local(b *hclsyntax.Block) {
	for _, in := range b.Body.Blocks {
		s.fault(in.TypeRange, "unsupported block %q; expected %s = value",
			in.Type, in.Type)
	}
	inOrder := func(a, b *hclsyntax.Attribute) int {
		return a.NameRange.Start.Byte - b.NameRange.Start.Byte
	}
	for _, a := range slices.SortedFunc(maps.Values(b.Body.Attributes), inOrder) {
		if _, twice := s.locals[a.Name]; twice {
			s.fault(a.NameRange, "duplicate local %q; expected each name once", a.Name)
		}
		s.locals[a.Name] = s.value(a, s.context())
	}
}

func (s *scope) value(a *hclsyntax.Attribute, ctx *hcl.EvalContext) cty.Value {
	v, diags := a.Expr.Value(ctx)
	s.diags = append(s.diags, diags...)
	if !diags.HasErrors() && valueWeight(v) > maxValue {
		s.fault(a.Expr.Range(), "the value is too large; expected at most %d bytes", maxValue)
		return cty.NullVal(v.Type())
	}
	return v
}

// valueWeight estimates the memory of a value in bytes.
func valueWeight(v cty.Value) int {
	n := 1
	switch {
	case !v.IsKnown() || v.IsNull():
	case v.Type() == cty.String:
		n += len(v.AsString())
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			n += valueWeight(e)
			if k.Type() == cty.String {
				n += len(k.AsString())
			}
		}
	}
	return n
}
