// Package rowfilter decides which rows of a list match a filter expression. The language and its meaning are
// as in go-bexpr.
//
// It adds two things to go-bexpr. Fields of embedded structs are at the top, as in the JSON of a row. And the
// cost of an expression is bounded, because any client can write one. A row is neither changed nor kept after
// Match returns. The caller chooses the kind of an error.
package rowfilter

import (
	"errors"
	"fmt"
	"reflect"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-bexpr/grammar"

	"berth/structs"
)

// MaxLength is the largest number of bytes of an expression.
const MaxLength = structs.MaxFilter

const (
	manyBrackets = 5      // levels of brackets from which on the parser takes very long
	stepsAtFirst = 500000 // steps that a new filter may make: half a second, and
	stepsPerRow  = 100    // in addition for each row

	entriesPerStep = 16 // elements of a list, or keys of a map, that cost as much as a step
	bytesPerStep   = 64 // bytes of a text, times the size of the patterns, that cost as much as a step
	boundPerStep   = 2  // conditions on an index or a key that cost as much as a step
)

// errCost ends the evaluation of a row.
var errCost = fmt.Errorf("takes more than %d steps per row; use fewer or smaller conditions, loops and regular expressions", stepsPerRow)

// Filter is an expression that is ready for rows. Two goroutines must not use one at the same time.
type Filter struct {
	evaluator *bexpr.Evaluator
	left      int // steps that may still be made
	patterns  int // size of all regular expressions
	bound     bound
	row       rowType
}

// bound counts the conditions on the names that loops give to indexes and keys. go-bexpr looks no value up
// for these.
type bound struct {
	indexes  int // conditions on names that may stand for an index
	keys     int // conditions on names that may stand for a key
	patterns int // size of their regular expressions
}

// New makes a filter. Its error continues a sentence that begins with the expression, and names the position.
func New(expression string) (*Filter, error) {
	if len(expression) > MaxLength {
		return nil, fmt.Errorf("has %d bytes; expected %d at most",
			len(expression), MaxLength)
	}

	tree, err := grammar.Parse("", []byte(expression),
		grammar.MaxExpressions(structs.MaxFilterSteps))
	if err != nil {
		if n := bracketDepth(expression); n >= manyBrackets {
			err = fmt.Errorf("%w (brackets are nested %d deep, which may be too many)", err, n)
		}
		return nil, fmt.Errorf("is not an expression: %w", err)
	}

	f := &Filter{left: stepsAtFirst}
	f.measureExpression(tree.(grammar.Expression), nil, nil)
	if f.patterns > structs.MaxFilterPatterns {
		return nil, fmt.Errorf("has regular expressions of size %d with their repetitions written out; expected %d at most", f.patterns, structs.MaxFilterPatterns)
	}

	f.evaluator, err = bexpr.CreateEvaluator(expression,
		bexpr.WithHookFn(f.countSteps))
	return f, err
}

// bracketDepth returns how deep an expression nests brackets. It counts those in texts, too.
func bracketDepth(expression string) (deepest int) {
	depth := 0
	for i := range len(expression) {
		switch expression[i] {
		case '(':
			depth++
			deepest = max(deepest, depth)
		case ')':
			depth--
		}
	}

	return deepest
}

// patternOf returns the size of the regular expression of a condition, 0 if it has none. A bad pattern has
// none. go-bexpr reports it when a row gets there.
func patternOf(e *grammar.MatchExpression) int {
	if e.Operator != grammar.MatchMatches &&
		e.Operator != grammar.MatchNotMatches {
		return 0
	}
	return PatternSize(e.Value.Raw)
}

// PatternSize returns about the number of instructions to which a regular expression compiles, 0 for one that
// does not.
func PatternSize(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return patternSize(re)
}

func patternSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return size
}

// measureExpression measures the patterns of an expression and counts its conditions inside loops that bind
// these names. A loop with one name binds it to the keys of a map, and to the elements of a list.
func (f *Filter) measureExpression(e grammar.Expression, indexes, keys []string) {
	switch e := e.(type) {
	case *grammar.UnaryExpression:
		f.measureExpression(e.Operand, indexes, keys)
	case *grammar.BinaryExpression:
		f.measureExpression(e.Left, indexes, keys)
		f.measureExpression(e.Right, indexes, keys)
	case *grammar.CollectionExpression:
		name := e.NameBinding
		indexes = append(slices.Clone(indexes), name.Index)
		keys = append(slices.Clone(keys), name.Index, name.Default)
		f.measureExpression(e.Inner, indexes, keys)

	case *grammar.MatchExpression:
		size := patternOf(e)
		f.patterns += size
		if len(e.Selector.Path) != 1 {
			return
		}

		name := e.Selector.Path[0]
		if slices.Contains(indexes, name) {
			f.bound.indexes++
		}

		if slices.Contains(keys, name) {
			f.bound.keys++
			f.bound.patterns += size
		}
	}
}

// countSteps counts the steps to a value that go-bexpr looks up, and the work on it. The panic ends the
// evaluation of the row: the hook has no error.
func (f *Filter) countSteps(v reflect.Value) reflect.Value {
	f.left--
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		f.left -= v.Len() / entriesPerStep
		f.left -= v.Len() * f.bound.indexes / boundPerStep
	case reflect.Map:
		f.left -= v.Len() / entriesPerStep
		f.left -= v.Len() * f.bound.keys / boundPerStep
		f.countKeys(v)
	case reflect.String:
		f.left -= v.Len() * (1 + f.patterns) / bytesPerStep
	}

	if f.left < 0 {
		panic(errCost)
	}

	return v
}

// countKeys counts the steps of patterns that match the keys of a map.
func (f *Filter) countKeys(m reflect.Value) {
	if f.bound.patterns == 0 ||
		m.Type().Key().Kind() != reflect.String {
		return
	}

	length := 0
	for keys := m.MapRange(); keys.Next(); {
		length += keys.Key().Len()
	}

	length += m.Len()
	f.left -= length * f.bound.patterns / bytesPerStep
}

// Match reports whether the row, a pointer to a struct, matches. Its error, the end of a sentence like
// New's, names the part of the expression that does not fit rows of this type, or that it is too expensive
// for them.
func (f *Filter) Match(row any) (ok bool, err error) {
	f.left += stepsPerRow
	v := reflect.ValueOf(row).Elem()
	if f.row.of != v.Type() {
		f.row = rowTypeOf(v.Type())
	}

	ok, err = f.evaluate(f.row.flat(v))
	switch {
	case err == nil:
		return ok, nil
	case errors.Is(err, errCost):
		return false, err
	}

	return false, fmt.Errorf("does not fit the rows: %w (rows have %s)",
		err, strings.Join(f.row.names(), ", "))
}

// evaluate makes go-bexpr evaluate a row. It panics on some values, for example on a nil pointer that is
// matched with a pattern.
func (f *Filter) evaluate(row any) (ok bool, err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errCost:
			err = errCost
		default:
			err = fmt.Errorf("a value is missing or of a kind that cannot be compared like this: %v", r)
		}
	}()
	return f.evaluator.Evaluate(row)
}

// rowType is a type of rows, and a struct with all its fields at the top.
type rowType struct {
	of     reflect.Type
	top    reflect.Type
	fields []reflect.StructField // of the rows
}

func rowTypeOf(t reflect.Type) rowType {
	isEmbedded := func(f reflect.StructField) bool {
		return f.Anonymous || !f.IsExported()
	}

	fields := slices.DeleteFunc(reflect.VisibleFields(t), isEmbedded)
	var top []reflect.StructField
	for _, f := range fields {
		top = append(top, reflect.StructField{
			Name: f.Name,
			Type: f.Type,
			Tag:  f.Tag, // a tag bexpr names the field in expressions
		})
	}

	return rowType{
		of:     t,
		top:    reflect.StructOf(top),
		fields: fields,
	}
}

// flat returns a copy of the row with all fields at the top.
func (t *rowType) flat(row reflect.Value) any {
	to := reflect.New(t.top).Elem()
	for i, f := range t.fields {
		to.Field(i).Set(row.FieldByIndex(f.Index))
	}
	return to.Interface()
}

func (t *rowType) names() (names []string) {
	for _, f := range t.fields {
		names = append(names, f.Name)
	}
	return names
}
