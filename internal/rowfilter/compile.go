package rowfilter

import (
	"reflect"

	"github.com/hashicorp/go-bexpr/grammar"
)

// answer is what a node says of a row. Who is unsure leaves the row to go-bexpr: so is whoever sees what is an
// error there, and the row's answer is then that error, or that of a condition before it.
type answer int8

const (
	no answer = iota
	yes
	unsure
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

func (a answer) not() answer {
	switch a {
	case yes:
		return no
	case no:
		return yes
	}
	return unsure
}

// node is one condition, or several with what joins them.
type node func(f *Filter) answer

// compiler turns go-bexpr's tree into nodes.
type compiler struct {
	scope   []names // of the loops around, the outermost first
	deepest int     // loops within each other
	pattern int     // size of all regular expressions
}

// names are those that one loop gives to what it is at.
type names struct {
	grammar.CollectionNameBinding
	broken bool // go-bexpr takes the value's name for that of the index
}

func (c *compiler) node(e grammar.Expression) node {
	switch e := e.(type) {
	case *grammar.UnaryExpression:
		operand := c.node(e.Operand)
		return func(f *Filter) answer { return operand(f).not() }
	case *grammar.BinaryExpression:
		return c.binary(e)
	case *grammar.MatchExpression:
		return c.match(e)
	case *grammar.CollectionExpression:
		return c.loop(e)
	}
	return func(*Filter) answer { return unsure }
}

// binary asks the right side only when the left does not decide.
func (c *compiler) binary(e *grammar.BinaryExpression) node {
	left, right, undecided := c.node(e.Left), c.node(e.Right), yes
	if e.Operator == grammar.BinaryOpOr {
		undecided = no
	}
	return func(f *Filter) answer {
		if a := left(f); a != undecided {
			return a
		}
		return right(f)
	}
}

func (c *compiler) match(e *grammar.MatchExpression) node {
	test, ok := tests[e.Operator]
	if !ok {
		return func(*Filter) answer { return unsure }
	}
	where, absent := c.selector(e.Selector.Path), answerOf(e.Operator.NotPresentDisposition())
	want := &operand{}
	if e.Value != nil {
		want.raw = e.Value.Raw
	}
	if test.pattern {
		c.pattern += want.compile()
	}
	return func(f *Filter) answer {
		if !f.spend(1) {
			return unsure
		}
		v, a := where.find(f)
		switch {
		case a == no:
			return absent
		case a == unsure || v.IsValid() && v.Type() == jsonNumber:
			return unsure
		}
		a = test.is(f, want, reflect.Indirect(v))
		if test.negated {
			return a.not()
		}
		return a
	}
}

// loop is where an any or all is.
type loop struct {
	key, value reflect.Value
	isMap      bool
}

func (c *compiler) loop(e *grammar.CollectionExpression) node {
	over, depth := c.selector(e.Selector.Path), len(c.scope)
	both := e.NameBinding.Mode == grammar.CollectionBindIndexAndValue
	alike := both && e.NameBinding.Index == e.NameBinding.Value
	c.scope = append(c.scope, names{e.NameBinding, both && e.NameBinding.Index == e.Selector.Path[0]})
	c.deepest = max(c.deepest, len(c.scope))
	inner := c.node(e.Inner)
	c.scope = c.scope[:depth]
	decisive := answerOf(e.Op == grammar.CollectionOpAny)
	return func(f *Filter) answer {
		if !f.spend(1) {
			return unsure
		}
		v, a := over.find(f)
		switch {
		case a == no:
			return decisive.not()
		case a == unsure || !canLoop(v) || alike && v.Len() > 0:
			return unsure
		case v.Kind() == reflect.Map:
			return overMap(f, depth, v, inner, decisive)
		}
		for i := range v.Len() {
			f.loops[depth] = loop{key: reflect.ValueOf(i), value: v.Index(i)}
			if a := inner(f); a != decisive.not() {
				return a
			}
		}
		return decisive.not()
	}
}

func overMap(f *Filter, depth int, v reflect.Value, inner node, decisive answer) answer {
	for entries := v.MapRange(); entries.Next(); {
		f.loops[depth] = loop{key: entries.Key(), value: entries.Value(), isMap: true}
		if a := inner(f); a != decisive.not() {
			return a
		}
	}
	return decisive.not()
}

func canLoop(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		return true
	case reflect.Map:
		return v.Type().Key() == reflect.TypeFor[string]()
	}
	return false
}
