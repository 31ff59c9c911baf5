package catalog

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"berth/client/drivers/protocol/hclspec"
)

// A plugin is not trusted to send a small schema. maxDepth bounds its nesting, and maxExpression the bytes
// of a literal or a type, whose parser needs more of the stack for each bracket. maxCalls bounds the calls of
// functions in a literal, each of which may double a text. maxFaults bounds the faults that are named.
const (
	maxDepth      = 50
	maxExpression = 4096
	maxCalls      = 8
	maxFaults     = 10
)

// functions are the functions that a literal may call, as plugins of the dialect expect. None of them
// reads a file or asks for the time, so a literal has one value.
var functions = map[string]function.Function{
	"abs":        stdlib.AbsoluteFunc,
	"coalesce":   stdlib.CoalesceFunc,
	"concat":     stdlib.ConcatFunc,
	"hasindex":   stdlib.HasIndexFunc,
	"int":        stdlib.IntFunc,
	"jsondecode": stdlib.JSONDecodeFunc,
	"jsonencode": stdlib.JSONEncodeFunc,
	"length":     stdlib.LengthFunc,
	"lower":      stdlib.LowerFunc,
	"max":        stdlib.MaxFunc,
	"min":        stdlib.MinFunc,
	"reverse":    stdlib.ReverseFunc,
	"strlen":     stdlib.StrlenFunc,
	"substr":     stdlib.SubstrFunc,
	"upper":      stdlib.UpperFunc,
}

// parser turns announced specs into specs of hcldec. It keeps the faults, up to maxFaults. A schema with a
// fault is not used at all: a spec with a hole would accept what the plugin does not.
type parser struct{ faults []error }

// fault keeps a fault of a setting, "" for none, and returns a spec in the place of the faulty one.
func (p *parser) fault(name, format string, args ...any) hcldec.Spec {
	if name != "" {
		format = name + ": " + format
	}

	// A large schema may have any number of them.
	if len(p.faults) < maxFaults {
		p.faults = append(p.faults, fmt.Errorf(format, args...))
	}

	// The parser goes on with a spec that needs nothing, so that one attempt names many faults.
	return hcldec.ObjectSpec{}
}

// spec parses s. name is the enclosing object's setting, the default for attributes and blocks.
func (p *parser) spec(s *hclspec.Spec, name string, depth int) hcldec.Spec {
	if depth > maxDepth {
		return p.fault(name, "it is nested more than %d levels deep", maxDepth)
	}

	// Depth counts the specs around this one, of all kinds.
	depth++
	switch b := s.GetBlock().(type) {
	case *hclspec.Spec_Object:
		return p.object(b.Object, depth)
	case *hclspec.Spec_Array:
		return p.array(b.Array, depth)
	case *hclspec.Spec_Attr:
		return p.attr(b.Attr, name)
	case *hclspec.Spec_BlockAttrs:
		return p.blockAttrs(b.BlockAttrs, name)
	// The primary spec and its default are one setting, so both have its name.
	case *hclspec.Spec_Default:
		return &hcldec.DefaultSpec{
			Primary: p.spec(b.Default.GetPrimary(), name, depth),
			Default: p.spec(b.Default.GetDefault(), name, depth),
		}

	case *hclspec.Spec_Literal:
		return p.literal(b.Literal, name)
	}

	return p.block(s, name, depth)
}

// block parses the kinds that read nested blocks.
func (p *parser) block(s *hclspec.Spec, name string, depth int) hcldec.Spec {
	switch b := s.GetBlock().(type) {
	case *hclspec.Spec_BlockValue:
		name = p.name(b.BlockValue.GetName(), name)
		nested := p.spec(b.BlockValue.GetNested(), name, depth)
		return &hcldec.BlockSpec{TypeName: name, Required: b.BlockValue.GetRequired(), Nested: nested}
	case *hclspec.Spec_BlockList:
		name = p.name(b.BlockList.GetName(), name)
		return &hcldec.BlockListSpec{
			TypeName: name,
			MinItems: items(b.BlockList.GetMinItems()),
			MaxItems: items(b.BlockList.GetMaxItems()),
			Nested:   p.spec(b.BlockList.GetNested(), name, depth),
		}

	case *hclspec.Spec_BlockSet:
		name = p.name(b.BlockSet.GetName(), name)
		return &hcldec.BlockSetSpec{
			TypeName: name,
			MinItems: items(b.BlockSet.GetMinItems()),
			MaxItems: items(b.BlockSet.GetMaxItems()),
			Nested:   p.spec(b.BlockSet.GetNested(), name, depth),
		}

	case *hclspec.Spec_BlockMap:
		name = p.name(b.BlockMap.GetName(), name)
		nested := p.spec(b.BlockMap.GetNested(), name, depth)
		return &hcldec.BlockMapSpec{TypeName: name, LabelNames: b.BlockMap.GetLabels(), Nested: nested}
	}
	return p.fault(name, "it has no kind that is known here")
}

// items converts a number of items to hcldec's type. A number that does not fit is no bound.
func items(n uint64) int {
	// int has 32 bits on some machines.
	const most = 1 << 30
	if n > most {
		return 0
	}
	return int(n)
}

// object parses named settings. A setting without a name of its own has the name that it has here.
func (p *parser) object(o *hclspec.Object, depth int) hcldec.Spec {
	spec := hcldec.ObjectSpec{}
	for name, value := range o.GetAttributes() {
		spec[name] = p.spec(value, name, depth)
	}
	return spec
}

// array parses a list of specs. An element without a name of its own has its number as the name.
func (p *parser) array(a *hclspec.Array, depth int) hcldec.Spec {
	spec := hcldec.TupleSpec{}
	for i, value := range a.GetValues() {
		spec = append(spec, p.spec(value, fmt.Sprint(i), depth))
	}
	return spec
}

// attr parses a setting `name = value`.
func (p *parser) attr(a *hclspec.Attr, name string) hcldec.Spec {
	name = p.name(a.GetName(), name)
	return &hcldec.AttrSpec{Name: name, Type: p.typ(a.GetType(), name), Required: a.GetRequired()}
}

// blockAttrs parses a block of settings with names of the user's choice and values of one type.
func (p *parser) blockAttrs(b *hclspec.BlockAttrs, name string) hcldec.Spec {
	name = p.name(b.GetName(), name)
	return &hcldec.BlockAttrsSpec{
		TypeName:    name,
		ElementType: p.typ(b.GetType(), name),
		Required:    b.GetRequired(),
	}
}

// literal evaluates an expression of the plugin, once for all configurations. It has no variables.
func (p *parser) literal(l *hclspec.Literal, name string) hcldec.Spec {
	if n := len(l.GetValue()); n > maxExpression {
		return p.fault(name, "the literal has %d bytes, at most %d are allowed", n, maxExpression)
	}

	expr, diags := hclsyntax.ParseExpression([]byte(l.GetValue()), "literal", hcl.InitialPos)
	if diags.HasErrors() {
		return p.fault(name, "the literal %q: %w", l.GetValue(), diags)
	}

	if !isCheap(expr) {
		return p.fault(name, "the literal %q: it has a loop, or more than %d calls of functions",
			l.GetValue(), maxCalls)
	}

	value, diags := expr.Value(&hcl.EvalContext{Functions: functions})
	if diags.HasErrors() {
		return p.fault(name, "the literal %q: %w", l.GetValue(), diags)
	}
	return &hcldec.LiteralSpec{Value: value}
}

// isCheap reports whether a literal needs little time and memory. Loops within one another do not.
func isCheap(expr hclsyntax.Expression) bool {
	loops := 0
	calls := 0
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n.(type) {
		// A loop in a loop multiplies the lengths of both.
		case *hclsyntax.ForExpr:
			loops++
		case *hclsyntax.FunctionCallExpr:
			calls++
		}
		return nil
	})
	return loops == 0 && calls <= maxCalls
}

// name returns the own name, or the one of the enclosing object's setting.
func (p *parser) name(own, enclosing string) string {
	if own == "" {
		own = enclosing
	}
	if own == "" {
		// The parser goes on without a name: the fault keeps the schema from use.
		p.fault("", "an attribute or block has no name")
	}
	return own
}

// typ parses a type expression. Empty is any type. A fault is any type, too: the schema is not used then.
func (p *parser) typ(text, name string) cty.Type {
	if text == "" {
		return cty.DynamicPseudoType
	}

	if len(text) > maxExpression {
		p.fault(name, "the type has %d bytes, at most %d are allowed", len(text), maxExpression)
		return cty.DynamicPseudoType
	}

	expr, diags := hclsyntax.ParseExpression([]byte(text), "type", hcl.InitialPos)
	if diags.HasErrors() {
		p.fault(name, "the type %q: %w", text, diags)
		return cty.DynamicPseudoType
	}

	t, diags := typeexpr.TypeConstraint(expr)
	if diags.HasErrors() {
		p.fault(name, "the type %q: %w", text, diags)
		return cty.DynamicPseudoType
	}

	return t
}
