package endpoints

import (
	"reflect"
	"sync"

	"github.com/hashicorp/go-bexpr"

	"berth/structs"
)

// filter compiles a filter expression; "" matches everything.
func filter(expression string) (func(stub any) (bool, error), error) {
	if expression == "" {
		return func(any) (bool, error) { return true, nil }, nil
	}
	e, err := bexpr.CreateEvaluator(expression)
	if err != nil {
		return nil, structs.Errorf(structs.KindInvalid, "the filter %q is not an expression: %w", expression, err)
	}
	return func(stub any) (ok bool, err error) {
		if ok, err = e.Evaluate(flat(stub)); err != nil {
			err = structs.Errorf(structs.KindInvalid, "the filter %q does not fit the rows: %w", expression, err)
		}
		return ok, err
	}, nil
}

// flatTypes holds, by the type of a row, the type that has its promoted fields at the top.
var flatTypes sync.Map

// flat is a row as its JSON shows it: with the fields of embedded structs at the top, where a filter names
// them.
func flat(row any) any {
	from := reflect.ValueOf(row).Elem()
	fields := promoted(from.Type())
	known, ok := flatTypes.Load(from.Type())
	if !ok {
		top := make([]reflect.StructField, len(fields))
		for i, f := range fields {
			top[i] = reflect.StructField{Name: f.Name, Type: f.Type}
		}
		known, _ = flatTypes.LoadOrStore(from.Type(), reflect.StructOf(top))
	}
	to := reflect.New(known.(reflect.Type)).Elem()
	for i, f := range fields {
		to.Field(i).Set(from.FieldByIndex(f.Index))
	}
	return to.Interface()
}

func promoted(t reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous {
			fields = append(fields, f)
		}
	}
	return fields
}
