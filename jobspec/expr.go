package jobspec

import (
	"bytes"
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

// A file may come from anybody who may submit a job, so evaluating one must stay small: there are no
// functions and no loops that multiply, a value has a bound, and so has the number of its uses.
const (
	maxValue = structs.MaxVariable     // bytes and elements of one variable or local
	maxUses  = structs.MaxVariableUses // of variables and locals in one file
)

var functions = map[string]function.Function{
	"abs": stdlib.AbsoluteFunc, "coalesce": stdlib.CoalesceFunc, "concat": stdlib.ConcatFunc,
	"length": stdlib.LengthFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc, "merge": stdlib.MergeFunc,
	"min": stdlib.MinFunc, "split": stdlib.SplitFunc, "trimspace": stdlib.TrimSpaceFunc,
	"upper": stdlib.UpperFunc,
}

// parseExpressions reads a job file's syntax and returns what is left when variables and locals are taken
// out, with the context in which the rest is evaluated: nil for JSON, whose strings are constants.
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
	s := scope{vars: map[string]cty.Value{}, locals: map[string]cty.Value{}}
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

// plainEnv makes `${env "X"}`, which is not HCL2, into a traversal of the same length, so that positions
// stay as they are. What the string then holds is taken from the source as it was written.
func plainEnv(src []byte) []byte {
	out := bytes.Clone(src)
	for _, m := range envPlaceholder.FindAllSubmatchIndex(src, -1) {
		if m[0] > 0 && src[m[0]-1] == '$' {
			continue // $${ is an escape: the text stays as it is
		}
		n := copy(out[m[0]:], "${env.")
		n += copy(out[m[0]+n:], src[m[2]:m[3]])
		for i := m[0] + n; i < m[1]-1; i++ {
			out[i] = '_'
		}
	}
	return out
}

// atRuntime says that a traversal is for the node that runs the task.
func atRuntime(root string) bool {
	switch root {
	case "attr", "node", "meta", "env":
		return true
	}
	return strings.HasPrefix(root, "NOMAD_") || strings.HasPrefix(root, "BERTH_") || root == "CSI_ENDPOINT"
}

// keepPlaceholders makes runtime placeholders in templates literal text again, and refuses what would let
// a small file make a large value.
func keepPlaceholders(body *hclsyntax.Body, src []byte) hcl.Diagnostics {
	uses := 0
	return hclsyntax.VisitAll(body, func(node hclsyntax.Node) hcl.Diagnostics {
		switch n := node.(type) {
		case *hclsyntax.TemplateExpr:
			for i, part := range n.Parts {
				n.Parts[i] = literal(part, src)
			}
		case *hclsyntax.TemplateWrapExpr:
			n.Wrapped = literal(n.Wrapped, src)
		case *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
			return hcl.Diagnostics{hclconf.Fault(node.Range(), "loops are not supported by berth yet")}
		case *hclsyntax.ScopeTraversalExpr:
			if uses++; uses == maxUses+1 {
				return hcl.Diagnostics{
					hclconf.Fault(node.Range(), "too many uses of variables; expected at most %d", maxUses),
				}
			}
		}
		return nil
	})
}

func literal(e hclsyntax.Expression, src []byte) hclsyntax.Expression {
	t, ok := e.(*hclsyntax.ScopeTraversalExpr)
	if !ok || !atRuntime(t.Traversal.RootName()) {
		return e
	}
	from, to := t.SrcRange.Start.Byte, t.SrcRange.End.Byte
	text := "${" + string(src[from:to]) + "}"
	return &hclsyntax.LiteralValueExpr{Val: cty.StringVal(text), SrcRange: t.SrcRange}
}

// scope is what a file defines for itself.
type scope struct {
	vars, locals map[string]cty.Value
	diags        hcl.Diagnostics
}

func (s *scope) context() *hcl.EvalContext {
	return &hcl.EvalContext{Functions: functions, Variables: map[string]cty.Value{
		"var": cty.ObjectVal(s.vars), "local": cty.ObjectVal(s.locals)}}
}

func (s *scope) fault(at hcl.Range, format string, args ...any) {
	s.diags = append(s.diags, hclconf.Fault(at, format, args...))
}

// variable takes `variable "x" { default = ... }`; type and description are notes for people.
func (s *scope) variable(b *hclsyntax.Block) {
	if len(b.Labels) != 1 {
		s.fault(b.TypeRange, "block \"variable\" has %d labels; expected variable \"name\" { ... }", len(b.Labels))
		return
	}
	for name, a := range b.Body.Attributes {
		if name != "default" && name != "type" && name != "description" && name != "sensitive" {
			s.fault(a.NameRange, "unsupported argument %q; expected one of: default, description, sensitive, type",
				name)
		}
	}
	for _, in := range b.Body.Blocks {
		s.fault(in.TypeRange, "%q is not supported by berth yet", in.Type)
	}
	if _, twice := s.vars[b.Labels[0]]; twice {
		s.fault(b.TypeRange, "duplicate variable %q; expected each name once", b.Labels[0])
	}
	def, ok := b.Body.Attributes["default"]
	if !ok {
		s.fault(b.TypeRange, "variable %q has no default; values from outside the file are not supported by berth yet", b.Labels[0])
		return
	}
	s.vars[b.Labels[0]] = s.value(def, &hcl.EvalContext{Functions: functions})
}

// local takes the values of a locals block; each may use those above it.
func (s *scope) local(b *hclsyntax.Block) {
	for _, in := range b.Body.Blocks {
		s.fault(in.TypeRange, "unsupported block %q; expected %s = value", in.Type, in.Type)
	}
	for _, a := range inOrder(b.Body.Attributes) {
		if _, twice := s.locals[a.Name]; twice {
			s.fault(a.NameRange, "duplicate local %q; expected each name once", a.Name)
		}
		s.locals[a.Name] = s.value(a, s.context())
	}
}

func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	out := make([]*hclsyntax.Attribute, 0, len(attrs))
	for _, a := range attrs {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a,
		b *hclsyntax.Attribute) int {
		return a.NameRange.Start.Byte - b.NameRange.Start.Byte
	})
	return out
}

func (s *scope) value(a *hclsyntax.Attribute, ctx *hcl.EvalContext) cty.Value {
	v, diags := a.Expr.Value(ctx)
	s.diags = append(s.diags, diags...)
	if !diags.HasErrors() && weight(v) > maxValue {
		s.fault(a.Expr.Range(), "the value is too large; expected at most %d bytes", maxValue)
		return cty.NullVal(v.Type())
	}
	return v
}

// weight is about how much memory a value takes, in bytes.
func weight(v cty.Value) int {
	n := 1
	switch {
	case !v.IsKnown() || v.IsNull():
	case v.Type() == cty.String:
		n += len(v.AsString())
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			n += weight(e)
			if k.Type() == cty.String {
				n += len(k.AsString())
			}
		}
	}
	return n
}
