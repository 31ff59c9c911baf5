package rowfilter

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/go-bexpr"
)

// slowFilter has go-bexpr look at copies of rows.
type slowFilter struct {
	evaluator *bexpr.Evaluator
	from, to  reflect.Type // a row's type, and the one with all its fields at the top
	fields    []reflect.StructField
}

// matchSlowly answers for a row that the closures are not sure of: mostly with an error.
func (f *Filter) matchSlowly(row any) (ok bool, err error) {
	if f.slow == nil {
		evaluator, err := bexpr.CreateEvaluator(f.expression)
		if err != nil {
			return false, err
		}
		f.slow = &slowFilter{evaluator: evaluator}
	}
	ok, err = f.slow.match(row)
	switch {
	case err != nil && f.unknown != "":
		err = fmt.Errorf("does not fit the rows: %w (rows have %s)", err, strings.Join(f.slow.names(), ", "))
	case err != nil:
		err = fmt.Errorf("does not fit the rows: %w", err)
	}
	return ok, err
}

func (s *slowFilter) match(row any) (ok bool, err error) {
	// go-bexpr panics on some of what has no value, as a nil pointer that is matched with a pattern.
	defer func() {
		if r := recover(); r != nil {
			ok, err = false, fmt.Errorf("a value is missing or of a kind that cannot be compared like this: %v", r)
		}
	}()
	return s.evaluator.Evaluate(s.flat(row))
}

// flat is a row as its JSON shows it: with the fields of embedded structs at the top, where a filter names
// them.
func (s *slowFilter) flat(row any) any {
	from := reflect.ValueOf(row).Elem()
	if s.from != from.Type() {
		s.from, s.fields = from.Type(), promoted(from.Type())
		top := make([]reflect.StructField, len(s.fields))
		for i, f := range s.fields {
			top[i] = reflect.StructField{Name: f.Name, Type: f.Type}
		}
		s.to = reflect.StructOf(top)
	}
	to := reflect.New(s.to).Elem()
	for i, f := range s.fields {
		to.Field(i).Set(from.FieldByIndex(f.Index))
	}
	return to.Interface()
}

func (s *slowFilter) names() (names []string) {
	for _, f := range s.fields {
		names = append(names, f.Name)
	}
	return names
}

func promoted(t reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if isPromoted(f) {
			fields = append(fields, f)
		}
	}
	return fields
}

// isPromoted tells the fields that a row shows at the top.
func isPromoted(f reflect.StructField) bool { return f.IsExported() && !f.Anonymous }
