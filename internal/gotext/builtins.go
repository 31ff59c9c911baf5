package gotext

import (
	"fmt"
	"reflect"
	"text/template"
)

// builtins are the functions of the language, beside those in frame.function. Those that take any value take
// it as a reflect.Value, so that it keeps its type.
var builtins = Functions{
	"not":      func(v reflect.Value) bool { return !holds(v) },
	"len":      length,
	"index":    index,
	"slice":    slice,
	"print":    fmt.Sprint,
	"printf":   fmt.Sprintf,
	"println":  fmt.Sprintln,
	"html":     template.HTMLEscaper,
	"js":       template.JSEscaper,
	"urlquery": template.URLQueryEscaper,
	"eq":       equal,
	"ne":       func(a, b reflect.Value) (bool, error) { same, err := equal(a, b); return !same, err },
	"lt":       less,
	"le":       lessOrEqual,
	"gt":       func(a, b reflect.Value) (bool, error) { atMost, err := lessOrEqual(a, b); return !atMost, err },
	"ge":       func(a, b reflect.Value) (bool, error) { below, err := less(a, b); return !below, err },
}

func holds(v reflect.Value) bool {
	is, _ := isTrue(v)
	return is
}

// length returns the number of bytes of a text, or of elements.
func length(v reflect.Value) (int, error) {
	v, isNil := indirect(v)
	switch {
	case isNil || !v.IsValid():
		return 0, faultf("len of nil pointer")
	case hasElements(v), v.Kind() == reflect.String, v.Kind() == reflect.Chan:
		return v.Len(), nil
	}
	return 0, faultf("len of type %s", v.Type())
}

func hasElements(v reflect.Value) bool {
	return v.Kind() == reflect.Map || v.Kind() == reflect.Slice || v.Kind() == reflect.Array
}

// index returns the element of a list or a map at the first key, its element at the second, and so on.
func index(v reflect.Value, keys ...reflect.Value) (reflect.Value, error) {
	v = behindInterface(v)
	if !v.IsValid() {
		return reflect.Value{}, faultf("index of untyped nil")
	}

	for _, key := range keys {
		inner, isNil := indirect(v)
		if isNil {
			return reflect.Value{}, faultf("index of nil pointer")
		}

		key = behindInterface(key)
		switch {
		case inner.Kind() == reflect.Map:
			at, err := mapKey(key, inner.Type().Key())
			if err != nil {
				return reflect.Value{}, err
			}
			v = inner.MapIndex(at)
			if !v.IsValid() {
				v = reflect.Zero(inner.Type().Elem())
			}
		case hasElements(inner), inner.Kind() == reflect.String:
			at, err := position(key, inner.Len()-1)
			if err != nil {
				return reflect.Value{}, err
			}
			v = inner.Index(at)
		default:
			return reflect.Value{}, faultf("can't index item of type %s", inner.Type())
		}
	}
	return v, nil
}

// mapKey returns a value as the key of a map. A whole number is one of each type of whole numbers.
func mapKey(key reflect.Value, t reflect.Type) (reflect.Value, error) {
	switch {
	case !key.IsValid() && canBeNil(t):
		return reflect.Zero(t), nil
	case !key.IsValid():
		return key, faultf("value is nil; should be of type %s", t)
	case key.Type().AssignableTo(t):
		return key, nil
	case isWhole(key) && isWhole(reflect.Zero(t)):
		return key.Convert(t), nil
	}
	return key, faultf("value has type %s; should be %s", key.Type(), t)
}

func isWhole(v reflect.Value) bool { return v.CanInt() || v.CanUint() }

// position returns an index as an int from 0 to a bound.
func position(key reflect.Value, most int) (int, error) {
	at := int64(-1)
	switch {
	case !key.IsValid():
		return 0, faultf("cannot index slice/array with nil")
	case key.CanInt():
		at = key.Int()
	case key.CanUint():
		at = int64(key.Uint()) // too large a one is negative
	default:
		return 0, faultf("cannot index slice/array with type %s", key.Type())
	}
	if at < 0 || at > int64(most) {
		return 0, fmt.Errorf("index out of range: %d", at)
	}
	return int(at), nil
}

// slice returns a part of a text or a list, by up to three bounds as in Go.
func slice(v reflect.Value, bounds ...reflect.Value) (reflect.Value, error) {
	v = behindInterface(v)
	switch {
	case !v.IsValid():
		return v, faultf("slice of untyped nil")
	case len(bounds) > 3:
		return v, faultf("too many slice indexes: %d", len(bounds))
	case v.Kind() == reflect.String && len(bounds) == 3:
		return v, faultf("cannot 3-index slice a string")
	case v.Kind() != reflect.String && v.Kind() != reflect.Slice && !(v.Kind() == reflect.Array && v.CanAddr()):
		return v, faultf("can't slice item of type %s", v.Type())
	}

	most := v.Len()
	if v.Kind() != reflect.String {
		most = v.Cap()
	}
	at := []int{0, v.Len(), most}
	for i, b := range bounds {
		n, err := position(behindInterface(b), most)
		if err != nil {
			return v, err
		}
		at[i] = n
	}
	if at[0] > at[1] || at[1] > at[2] {
		return v, fmt.Errorf("invalid slice index: %v", at[:max(2, len(bounds))])
	}

	if len(bounds) == 3 {
		return v.Slice3(at[0], at[1], at[2]), nil
	}
	return v.Slice(at[0], at[1]), nil
}
