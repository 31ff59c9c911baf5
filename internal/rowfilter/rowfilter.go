// Package rowfilter decides which rows of a list a filter expression lets by. The language is go-bexpr's, and
// so is its meaning: go-bexpr parses an expression, and whatever is not plain here, above all every error, is
// answered by go-bexpr itself for the row in question.
//
// Why there is more than go-bexpr: it looks up each selector by name in each row, which takes tens of
// microseconds. Here an expression becomes closures once, which remember where a field is in the type of
// row they saw last, and look at the row in place.
//
// Laws: a row is not changed, copied, or remembered after Match returns. Fields of embedded structs are at
// the top, as in a row's JSON. What an expression may cost is bounded, since strangers write them. The kinds
// of errors are left to who asks.
package rowfilter

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/go-bexpr/grammar"

	"berth/structs"
)

// MaxLength is how many bytes an expression may have.
const MaxLength = structs.MaxFilter

const (
	maxParsing   = 2000000 // steps of the parser, which goes back often: a fifth of a second
	manyBrackets = 5       // levels of brackets from which on the parser takes very long
	maxPattern   = 4000    // size of all regular expressions together, repetitions written out
	spentAtFirst = 5000000 // comparisons that may be made at once: a tenth of a second, and
	spentPerRow  = 1000    // on top of it for each row
)

// Filter is an expression made ready for rows. Two goroutines must not use one at the same time.
type Filter struct {
	expression string
	root       node
	row        reflect.Value // the struct that is looked at
	loops      []loop        // where each any and all of it is, the outermost first
	left       int           // comparisons that may still be made
	unknown    string        // a field that was asked for and that rows do not have
	slow       *slowFilter   // made when first needed
}

// New makes a filter. Its error continues a sentence that begins with the expression, and names the place.
func New(expression string) (*Filter, error) {
	if len(expression) > MaxLength {
		return nil, fmt.Errorf("has %d bytes; expected %d at most, so ask for less at a time", len(expression), MaxLength)
	}
	tree, err := grammar.Parse("", []byte(expression), grammar.MaxExpressions(maxParsing))
	if err != nil {
		if n := brackets(expression); n >= manyBrackets {
			err = fmt.Errorf("%w (brackets are nested %d deep, which may be too many)", err, n)
		}
		return nil, fmt.Errorf("is not an expression: %w", err)
	}
	c := compiler{}
	f := &Filter{expression: expression, root: c.node(tree.(grammar.Expression)), left: spentAtFirst}
	if c.pattern > maxPattern {
		return nil, fmt.Errorf("has regular expressions of size %d with their repetitions written out; expected %d at most", c.pattern, maxPattern)
	}
	f.loops = make([]loop, c.deepest)
	return f, nil
}

// brackets is how deep an expression nests them, those in texts included.
func brackets(expression string) (deepest int) {
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

// Match reports whether the row, a pointer to a struct, is let by. Its error, a sentence's end as that of New,
// says what in the expression does not fit rows of this type, or that it asks for too much of them.
func (f *Filter) Match(row any) (bool, error) {
	f.row = reflect.ValueOf(row).Elem()
	f.left += spentPerRow
	verdict := f.root(f)
	f.row = reflect.Value{}
	clear(f.loops)
	switch {
	case verdict != unsure:
		return verdict == yes, nil
	case f.left < 0:
		return false, fmt.Errorf("takes more than %d comparisons per row; use fewer or smaller conditions, loops and regular expressions", spentPerRow)
	default:
		return f.matchSlowly(row)
	}
}

// spend reports whether so many more comparisons may be made.
func (f *Filter) spend(comparisons int) bool {
	f.left -= comparisons
	return f.left >= 0
}
