// Package jobtext lists the fields of a job that have texts, with the code that replaces the placeholders in
// them. Tests compare the code and the documentation with the list.
package jobtext

import (
	"reflect"
	"slices"
)

// Placeholder is a text that tests put into fields. The code under test replaces it by Value.
const (
	Placeholder = "${NOMAD_TASK_NAME}"
	Value       = "web"
)

// The places that read placeholders, besides the packages of the node.
const (
	Scheduler = "scheduler/feasible" // it compares the values of nodes
	Literal   = ""                   // nothing replaces them
)

// Field is a field with texts, also in lists and maps.
type Field struct {
	Type, Name string // in structs
	// Block and Argument are names of a job file, "" for a literal field.
	Block, Argument string
	// By is the package that replaces placeholders, Scheduler or Literal.
	By string
}

// Key returns the name of the field with its type.
func (f Field) Key() string { return f.Type + "." + f.Name }

// Listed returns all fields of a job, and of all that it holds, that have texts.
func Listed() []Field { return slices.Concat(Taking(), literals()) }

// Of returns the keys of the fields with texts in a type and in the types of its fields.
func Of(typ reflect.Type) []string {
	var keys []string
	walk(typ, map[reflect.Type]bool{}, func(owner reflect.Type, f reflect.StructField) {
		keys = append(keys, owner.Name()+"."+f.Name)
	})
	return keys
}

// Fill sets the fields with texts of a struct to Placeholder, not the fields of structs in it.
func Fill[T any](s T) T {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if hasTexts(v.Type().Field(i).Type) {
			v.Field(i).Set(textIn(v.Field(i).Type()))
		}
	}
	return s
}

// Replaced reports for each field with texts of a filled struct whether all of it is Value now.
func Replaced(s any) map[string]bool {
	v := reflect.ValueOf(s).Elem()
	replaced := map[string]bool{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if hasTexts(f.Type) {
			replaced[v.Type().Name()+"."+f.Name] = allReplaced(v.Field(i))
		}
	}

	return replaced
}

// textIn returns a value of a type with the placeholder, as the key of a map too.
func textIn(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Slice:
		return reflect.Append(v, textIn(t.Elem()))
	case reflect.Map:
		v = reflect.MakeMap(t)
		v.SetMapIndex(textIn(t.Key()), textIn(t.Elem()))
	case reflect.Interface:
		v.Set(reflect.ValueOf(Placeholder))
	default:
		v.SetString(Placeholder)
	}

	return v
}

func allReplaced(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return v.Len() == 1 && allReplaced(v.Index(0))
	case reflect.Map:
		keys := v.MapKeys()
		return len(keys) == 1 && allReplaced(keys[0]) && allReplaced(v.MapIndex(keys[0]))
	case reflect.Interface:
		return allReplaced(v.Elem())
	}

	return v.Kind() == reflect.String && v.String() == Value
}

// walk visits the fields with texts of a type and of the types of its fields, each type once.
func walk(typ reflect.Type, seen map[reflect.Type]bool, visit func(reflect.Type, reflect.StructField)) {
	typ = innermost(typ)
	if typ.Kind() != reflect.Struct || seen[typ] {
		return
	}

	seen[typ] = true
	for i := range typ.NumField() {
		f := typ.Field(i)
		if hasTexts(f.Type) {
			visit(typ, f)
		}
		walk(f.Type, seen, visit)
	}
}

func hasTexts(typ reflect.Type) bool {
	kind := innermost(typ).Kind()
	return kind == reflect.String || kind == reflect.Interface
}

// innermost returns the type of the values in pointers, lists and maps.
func innermost(typ reflect.Type) reflect.Type {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, typ.Kind()) {
		typ = typ.Elem()
	}
	return typ
}
