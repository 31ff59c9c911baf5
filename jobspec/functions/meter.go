package functions

import (
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth/structs"
)

// The costs of an evaluation, in bytes: about the memory of a value without its text, of a diagnostic, and of
// an argument or block that a dynamic block makes.
const (
	valueCost = 32
	faultCost = 512
	itemCost  = 128
)

// Budget bounds the evaluation of one file: every submitter of a job can write one, and a loop multiplies
// values. Each value that an expression yields costs its size, also one within another, so that the time of
// an evaluation is bounded, too.
type Budget struct {
	left     int
	exceeded bool
}

// NewBudget returns the budget of a file.
func NewBudget() *Budget { return &Budget{left: structs.MaxEvaluation} }

// spend takes a cost from the budget. It reports whether the budget allows it.
func (b *Budget) spend(cost int) bool {
	if cost > b.left {
		b.exceeded = true
		// Nothing is left for a later value either: it would have cost nothing.
		b.left = 0
	}
	b.left -= min(cost, b.left)
	return !b.exceeded
}

// SpendItems takes the cost of arguments and blocks that a dynamic block makes. It reports whether the budget
// allows it.
func (b *Budget) SpendItems(n int) bool { return b.spend(n * itemCost) }

// Exceeded reports whether the evaluation has cost more than the budget.
func (b *Budget) Exceeded() bool { return b.exceeded }

// metered is an expression whose values cost their size. It yields unknown values after the budget.
type metered struct {
	hclsyntax.Expression
	budget *Budget
}

// Value returns the value of the expression.
// The evaluation ends soon: what depends on an unknown value is unknown.
func (m *metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if m.budget.exceeded {
		return cty.DynamicVal, nil
	}
	v, diags := m.Expression.Value(ctx)
	cost := valueSize(v, m.budget.left) + len(diags)*faultCost
	if !m.budget.spend(cost) {
		return cty.DynamicVal, nil
	}
	return v, diags
}

// UnwrapExpression returns the expression, for static analysis.
func (m *metered) UnwrapExpression() hcl.Expression { return m.Expression }

// valueSize estimates the memory of a value in bytes. It stops above limit, because a value may hold another
// one very often.
func valueSize(v cty.Value, limit int) int {
	n := valueCost
	switch {
	case !v.IsKnown() || v.IsNull():
	case v.Type() == cty.String:
		n += len(v.AsString())
	case v.Type() == cty.Number:
		n += numberSize(v)
	case v.CanIterateElements():
		if t := v.Type(); t.IsTupleType() || t.IsObjectType() {
			n += v.LengthInt() * v.LengthInt() / 8 // a conversion compares all pairs of their types
		}

		for it := v.ElementIterator(); n <= limit && it.Next(); {
			k, e := it.Element()
			if k.Type() == cty.String {
				n += len(k.AsString())
			}

			n += valueSize(e, limit-n)
		}
	}
	return n
}

// numberSize returns the number of binary digits of a number as text: a short literal may have a billion.
func numberSize(v cty.Value) int {
	f := v.AsBigFloat()
	exponent := f.MantExp(nil)
	return max(exponent, -exponent)
}

var expressionType = reflect.TypeFor[hclsyntax.Expression]()

// Meter replaces the expressions below a node of the syntax by metered ones.
func (b *Budget) Meter(node hclsyntax.Node) {
	// HCL has no other way to replace the parts of its syntax.
	v := reflect.ValueOf(node)
	if v.Kind() != reflect.Pointer {
		return
	}

	switch n := node.(type) {
	case *hclsyntax.ObjectConsKeyExpr: // it depends on the type of the key's expression
		return
	case *hclsyntax.ObjectConsExpr:
		for i := range n.Items {
			n.Items[i].ValueExpr = b.meterOne(n.Items[i].ValueExpr)
		}
		return
	}

	for _, f := range v.Elem().Fields() { // its exported fields have the children
		switch {
		case f.Type() == expressionType && !f.IsNil():
			e := f.Interface().(hclsyntax.Expression)
			f.Set(reflect.ValueOf(b.meterOne(e)))
		case f.Type() == reflect.SliceOf(expressionType):
			for i := range f.Len() {
				e := f.Index(i).Interface().(hclsyntax.Expression)
				f.Index(i).Set(reflect.ValueOf(b.meterOne(e)))
			}
		}
	}
}

// meterOne wraps one expression. Its parts were wrapped before, because the walk meters a node at its exit.
func (b *Budget) meterOne(e hclsyntax.Expression) hclsyntax.Expression {
	return &metered{
		Expression: e,
		budget:     b,
	}
}
