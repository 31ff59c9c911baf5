package rowfilter

import (
	"errors"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/hashicorp/go-bexpr/grammar"
)

// test is an operator: what it asks of a value, and whether the answer is turned round.
type test struct {
	is      func(f *Filter, want *operand, v reflect.Value) answer
	negated bool
	pattern bool // its operand is a regular expression
}

var tests = map[grammar.MatchOperator]test{
	grammar.MatchEqual:       {is: equals},
	grammar.MatchNotEqual:    {is: equals, negated: true},
	grammar.MatchIn:          {is: holds},
	grammar.MatchNotIn:       {is: holds, negated: true},
	grammar.MatchContains:    {is: holds},
	grammar.MatchNotContains: {is: holds, negated: true},
	grammar.MatchMatches:     {is: matches, pattern: true},
	grammar.MatchNotMatches:  {is: matches, negated: true, pattern: true},
	grammar.MatchIsEmpty:     {is: isEmpty},
	grammar.MatchIsNotEmpty:  {is: isEmpty, negated: true},
	grammar.MatchIsNil:       {is: isNil},
	grammar.MatchIsNotNil:    {is: isNil, negated: true},
}

func equals(_ *Filter, want *operand, v reflect.Value) answer {
	same, err := want.equals(v)
	if err != nil {
		return unsure
	}
	return answerOf(same)
}

// holds asks whether a map has the operand as a key, a list has it as an item, or a text as a part.
func holds(f *Filter, want *operand, v reflect.Value) answer {
	switch v.Kind() {
	case reflect.String:
		return answerOf(strings.Contains(v.String(), want.raw))
	case reflect.Map:
		if t := v.Type(); want.keyOf != t {
			want.keyOf, want.key = t, textKey(t, want.raw)
		}
		if !want.key.IsValid() {
			return unsure
		}
		return answerOf(v.MapIndex(want.key).IsValid())
	case reflect.Slice, reflect.Array:
		return listHolds(f, want, v)
	}
	return unsure
}

func listHolds(f *Filter, want *operand, v reflect.Value) answer {
	kind := pointedTo(v.Type().Elem()).Kind()
	mixed := kind == reflect.Interface
	if !mixed && want.fits(kind) != nil || !f.spend(v.Len()) {
		return unsure
	}
	for i := range v.Len() {
		item := v.Index(i)
		if mixed {
			if item = item.Elem(); !item.IsValid() {
				return unsure
			}
			kind = pointedTo(item.Type()).Kind()
		}
		if mixed && errors.Is(want.fits(kind), strconv.ErrSyntax) {
			continue // it cannot be this one
		}
		item = reflect.Indirect(item)
		same, err := want.equals(item)
		if err != nil || item.Kind() != kind {
			return unsure
		}
		if same {
			return yes
		}
	}
	return no
}

func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// bytesPerComparison is how much of a text, times the size of the pattern, costs as much as a comparison.
const bytesPerComparison = 64

func matches(f *Filter, want *operand, v reflect.Value) answer {
	if v.Kind() != reflect.String || want.pattern == nil || !f.spend(v.Len()*want.size/bytesPerComparison) {
		return unsure
	}
	return answerOf(want.pattern.MatchString(v.String()))
}

func isEmpty(_ *Filter, _ *operand, v reflect.Value) answer {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Chan, reflect.String:
		return answerOf(v.Len() == 0)
	}
	return unsure
}

func isNil(_ *Filter, _ *operand, v reflect.Value) answer {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		return answerOf(v.IsNil())
	case reflect.Struct:
		return no
	case reflect.Invalid: // what a nil pointer points to
		return yes
	}
	return unsure
}

// patternSize is about how many instructions a pattern is compiled to.
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

// compile makes the operand a pattern and reports its size, of one too big without making it. Of one that is
// wrong go-bexpr tells why, once a row gets there.
func (o *operand) compile() int {
	re, err := syntax.Parse(o.raw, syntax.Perl)
	if err != nil {
		return 0
	}
	if o.size = patternSize(re); o.size <= maxPattern {
		o.pattern, _ = regexp.Compile(o.raw)
	}
	return o.size
}
