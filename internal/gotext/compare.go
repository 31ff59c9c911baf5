package gotext

import (
	"cmp"
	"fmt"
	"reflect"
)

// equal reports whether a value is equal to one of the others.
func equal(a reflect.Value, others ...reflect.Value) (bool, error) {
	if len(others) == 0 {
		return false, faultf("missing argument for comparison")
	}

	a = behindInterface(a)
	for _, b := range others {
		same, err := equalTo(a, behindInterface(b))
		if same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// equalTo compares two values of one kind, or two whole numbers.
func equalTo(a, b reflect.Value) (bool, error) {
	switch {
	case kindOf(a) == whole && kindOf(b) == whole:
		return compareWhole(a, b) == 0, nil
	case kindOf(a) != kindOf(b) && a.IsValid() && b.IsValid():
		return false, faultf("incompatible types for comparison: %s, %s", a.Type(), b.Type())
	case a.IsValid() && b.IsValid() && (a.Kind() != b.Kind() || !a.Comparable() || !b.Comparable()):
		return false, faultf("non-comparable types: %s, %s", a.Type(), b.Type())
	case isNil(a) || isNil(b):
		return isNil(a) && isNil(b), nil
	}

	switch kindOf(a) {
	case text:
		return a.String() == b.String(), nil
	case boolean:
		return a.Bool() == b.Bool(), nil
	case fraction:
		return a.Float() == b.Float(), nil
	case imaginary:
		return a.Complex() == b.Complex(), nil
	}
	return a.Equal(b), nil
}

func isNil(v reflect.Value) bool { return !v.IsValid() || canBeNil(v.Type()) && v.IsNil() }

// less reports whether a text or a number is below another.
func less(a, b reflect.Value) (bool, error) {
	order, err := compare(a, b)
	return order < 0, err
}

func lessOrEqual(a, b reflect.Value) (bool, error) {
	order, err := compare(a, b)
	return order <= 0 && err == nil, err
}

// compare returns the order of two texts or two numbers.
func compare(a, b reflect.Value) (int, error) {
	a = behindInterface(a)
	b = behindInterface(b)
	switch {
	case !isOrdered(a) || !isOrdered(b):
		return 0, faultf("invalid type for comparison: %s", typeName(a, b))
	case kindOf(a) != kindOf(b):
		return 0, faultf("incompatible types for comparison: %s, %s", a.Type(), b.Type())
	}

	switch kindOf(a) {
	case whole:
		return compareWhole(a, b), nil
	case fraction:
		return compareFractions(a.Float(), b.Float()), nil
	}
	return compareKeys(a, b), nil
}

func typeName(a, b reflect.Value) string {
	v := a
	if isOrdered(a) {
		v = b
	}
	if !v.IsValid() {
		return "nil"
	}
	return fmt.Sprint(v.Type())
}

// compareFractions is not cmp.Compare: a fraction that is not a number is not below any other. Here it is
// above all.
func compareFractions(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// compareWhole compares two whole numbers, with a sign or without.
func compareWhole(a, b reflect.Value) int {
	negative := func(v reflect.Value) bool { return v.CanInt() && v.Int() < 0 }
	magnitude := func(v reflect.Value) uint64 {
		if v.CanInt() {
			return uint64(v.Int())
		}
		return v.Uint()
	}
	switch {
	case negative(a) != negative(b) && negative(a):
		return -1
	case negative(a) != negative(b):
		return 1
	}
	// Two negative numbers keep their order as two's complements.
	return cmp.Compare(magnitude(a), magnitude(b))
}

// kind is a kind of values whose types may differ in a comparison.
type kind int

const (
	other kind = iota
	boolean
	whole
	fraction
	imaginary
	text
)

func kindOf(v reflect.Value) kind {
	switch {
	case !v.IsValid():
		return other
	case isWhole(v):
		return whole
	case v.CanFloat():
		return fraction
	case v.CanComplex():
		return imaginary
	case v.Kind() == reflect.String:
		return text
	case v.Kind() == reflect.Bool:
		return boolean
	}
	return other
}

func isOrdered(v reflect.Value) bool {
	k := kindOf(v)
	return k == whole || k == fraction || k == text
}
