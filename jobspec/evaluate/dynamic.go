package evaluate

import (
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"berth/internal/conf"
	"berth/jobspec/functions"
)

// expander replaces dynamic blocks by the blocks that they make. HCL's own expansion reads a body by its
// schema, and berth also expands the free content of a task's config.
type expander struct {
	faults
	budget *functions.Budget
	unset  *conf.Unset // has the kinds of blocks of which some are not made because of a fault
}

// scoped is an expression in the content of a dynamic block.
type scoped struct {
	hclsyntax.Expression
	ctx *hcl.EvalContext
}

// Value returns the value of the expression for one element.
func (s *scoped) Value(*hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	return s.Expression.Value(s.ctx)
}

// UnwrapExpression returns the expression, for static analysis.
func (s *scoped) UnwrapExpression() hcl.Expression { return s.Expression }

// body returns a copy of a body without dynamic blocks. The arguments of one that a dynamic block has made
// have their own context.
func (x *expander) body(b *hclsyntax.Body, ctx *hcl.EvalContext, made bool) *hclsyntax.Body {
	out := *b
	// Each block that is made has copies of the arguments. The budget bounds them before they exist.
	if made && x.budget.SpendItems(len(b.Attributes)+len(b.Blocks)) {
		out.Attributes = maps.Clone(b.Attributes)
		for name, a := range b.Attributes {
			own := *a
			own.Expr = &scoped{
				Expression: a.Expr,
				ctx:        ctx,
			}
			out.Attributes[name] = &own
		}
	}

	out.Blocks = nil
	for _, in := range b.Blocks {
		if in.Type == "dynamic" {
			made, complete := x.generate(in, ctx)
			if !complete {
				// A fault of the job may be due to the absence of such a block: see package locate.
				x.unset.AddBlock(b, madeKind(in))
			}

			out.Blocks = append(out.Blocks, made...)
			continue
		}

		inner := *in
		inner.Body = x.body(in.Body, ctx, made)
		out.Blocks = append(out.Blocks, &inner)
	}

	return &out
}

// madeKind returns the kind of the blocks that a dynamic block makes.
func madeKind(b *hclsyntax.Block) string {
	if len(b.Labels) == 0 {
		return b.Type
	}
	return b.Labels[0]
}

// dynamic is a dynamic block.
type dynamic struct {
	block   *hclsyntax.Block
	labels  hclsyntax.Expression // nil if there are none
	content *hclsyntax.Block
}

// generate returns the blocks that a dynamic block makes: one for each element of for_each. After a fault
// they are not complete.
func (x *expander) generate(b *hclsyntax.Block, ctx *hcl.EvalContext) (out hclsyntax.Blocks, complete bool) {
	forEach, d := x.readDynamic(b)
	if forEach == nil {
		return nil, false
	}

	list, diags := forEach.Value(ctx)
	x.diags = append(x.diags, diags...)
	switch {
	case diags.HasErrors() || !list.IsKnown():
		return nil, false
	case list.IsNull() || !list.CanIterateElements():
		x.fault(forEach.Range(), "for_each has no elements; expected a list, a set or a map")
		return nil, false
	}

	complete = true
	// A set has its elements in their own order, and a map in the order of the keys.
	for it := list.ElementIterator(); it.Next() && !x.budget.Exceeded(); {
		key, value := it.Element()
		child := ctx.NewChild()
		child.Variables = map[string]cty.Value{
			iteratorName(b): cty.ObjectVal(map[string]cty.Value{
				"key":   key,
				"value": value,
			}),
		}

		made := x.generateOne(d, child)
		if made == nil {
			complete = false
			continue
		}

		out = append(out, made)
	}

	return out, complete
}

// readDynamic returns the parts of a dynamic block, and nil after a fault.
func (x *expander) readDynamic(b *hclsyntax.Block) (forEach hclsyntax.Expression, d dynamic) {
	d.block = b
	if len(b.Labels) != 1 {
		x.fault(b.TypeRange, "block \"dynamic\" has %d labels; expected dynamic \"block\" { ... }",
			len(b.Labels))
		return nil, d
	}

	for name, a := range b.Body.Attributes {
		switch name {
		case "for_each":
			forEach = a.Expr
		case "labels":
			d.labels = a.Expr
		case "iterator":
			if hcl.ExprAsKeyword(a.Expr) == "" {
				x.fault(a.Expr.Range(), "invalid value for \"iterator\": expected a name without quotes")
				return nil, d
			}

		default:
			x.fault(a.NameRange,
				"unsupported argument %q; expected one of: for_each, iterator, labels, content",
				name)
		}
	}

	for _, in := range b.Body.Blocks {
		if in.Type != "content" || d.content != nil {
			x.fault(in.TypeRange, "unsupported block %q; expected content { ... } once", in.Type)
			return nil, d
		}

		d.content = in
	}

	if forEach == nil || d.content == nil {
		x.fault(b.TypeRange,
			"the dynamic block %q is not complete; expected for_each = list and content { ... }",
			b.Labels[0])
		return nil, d
	}

	return forEach, d
}

// generateOne returns the block for one element, nil after a fault.
func (x *expander) generateOne(d dynamic, ctx *hcl.EvalContext) *hclsyntax.Block {
	out := *d.content
	out.Type = d.block.Labels[0]
	// All blocks that a dynamic block makes have this place, so the decoder keeps their order.
	out.TypeRange = d.block.LabelRanges[0]
	out.Labels = nil
	out.LabelRanges = nil
	if d.labels != nil {
		v, diags := d.labels.Value(ctx)
		x.diags = append(x.diags, diags...)
		if diags.HasErrors() {
			return nil
		}

		list, err := convert.Convert(v, cty.List(cty.String))
		switch {
		case err != nil || list.IsNull():
			x.fault(d.labels.Range(), "invalid value for \"labels\": expected a list of strings")
			return nil
		// An unknown label has a fault elsewhere.
		case !list.IsWhollyKnown():
			return nil
		}

		for _, label := range list.AsValueSlice() {
			if label.IsNull() {
				x.fault(d.labels.Range(), "a label is null; expected a string")
				return nil
			}

			out.Labels = append(out.Labels, label.AsString())
			out.LabelRanges = append(out.LabelRanges, d.labels.Range())
		}
	}

	out.Body = x.body(d.content.Body, ctx, true)
	return &out
}
