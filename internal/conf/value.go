package conf

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// maxExponent bounds the binary exponent of a number, because 1e99999999 has as many digits as text.
const maxExponent = 1 << 12

// setField sets a field to a value. Its errors have types and no values. A value that is not known comes from
// an expression with a fault: the field stays unchanged.
func setField(dst reflect.Value, v cty.Value) error {
	t := dst.Type()
	switch {
	case !v.IsWhollyKnown() || v.IsNull():
		return nil
	case v.Type() == cty.Number && tooLong(v):
		return fmt.Errorf("the number is out of range; expected %s", expected(t))
	case reflect.PointerTo(t).Implements(textType):
		return setText(dst, v)
	case t == durationType:
		return setDuration(dst, v)
	}

	switch t.Kind() {
	case reflect.Pointer:
		x, err := newValue(t.Elem(), v)
		if err == nil {
			dst.Set(x.Addr())
		}
		return err

	case reflect.Interface:
		x, err := newValue(plainType(v), v)
		if err == nil {
			dst.Set(x)
		}
		return err

	case reflect.Slice:
		return setSlice(dst, v)
	case reflect.Map:
		return setMap(dst, v)
	}

	return setPrimitive(dst, v)
}

// newValue returns a new variable of type t that is set to v.
func newValue(t reflect.Type, v cty.Value) (reflect.Value, error) {
	x := reflect.New(t).Elem()
	return x, setField(x, v)
}

// mismatch names the two types, and never the value, which may be a secret.
func mismatch(v cty.Value, dst reflect.Value) error {
	return fmt.Errorf("got %s; expected %s",
		valueName(v), expected(dst.Type()))
}

// setText sets a field that reads its own text. A number becomes a text first.
func setText(dst reflect.Value, v cty.Value) error {
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return mismatch(v, dst)
	}
	text := dst.Addr().Interface().(encoding.TextUnmarshaler)
	return text.UnmarshalText([]byte(s.AsString()))
}

// setDuration sets a duration, of which a number is one in nanoseconds, as in JSON.
func setDuration(dst reflect.Value, v cty.Value) error {
	switch v.Type() {
	case cty.Number:
		n, ok := wholeNumber(v)
		if !ok || !n.IsInt64() {
			return fmt.Errorf("got a number that is not whole nanoseconds; expected %s",
				expected(dst.Type()))
		}

		dst.SetInt(n.Int64())
		return nil

	case cty.String:
		d, err := time.ParseDuration(v.AsString())
		if err != nil {
			return fmt.Errorf("%.40q is not a duration; expected %s",
				v.AsString(), expected(dst.Type()))
		}

		dst.SetInt(int64(d))
		return nil
	}
	return mismatch(v, dst)
}

// setSlice sets a list. A set has an order of its own.
func setSlice(dst reflect.Value, v cty.Value) error {
	// A map can be iterated over, too, and would lose its keys.
	if !v.CanIterateElements() || isMap(v.Type()) {
		return mismatch(v, dst)
	}
	t := dst.Type()
	out := reflect.MakeSlice(t, 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		x, err := newValue(t.Elem(), e)
		if err != nil {
			return fmt.Errorf("element %d: %w", out.Len(), err)
		}
		out = reflect.Append(out, x)
	}
	dst.Set(out)
	return nil
}

// setMap also accepts a list of one map, because converters write a block so in JSON.
func setMap(dst reflect.Value, v cty.Value) error {
	if v.Type().IsTupleType() && v.LengthInt() == 1 {
		only := v.Index(cty.NumberIntVal(0))
		if only.Type().IsObjectType() {
			v = only
		}
	}

	if !v.CanIterateElements() || !isMap(v.Type()) {
		return mismatch(v, dst)
	}

	t := dst.Type()
	out := reflect.MakeMap(t)
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		x, err := newValue(t.Elem(), e)
		if err != nil {
			return fmt.Errorf("%q: %w", k.AsString(), err)
		}

		out.SetMapIndex(reflect.ValueOf(k.AsString()), x)
	}

	dst.Set(out)
	return nil
}

// setPrimitive converts as HCL does: "80" is a number, and 80 a string.
func setPrimitive(dst reflect.Value, v cty.Value) error {
	to := cty.Number
	switch dst.Kind() {
	case reflect.String:
		to = cty.String
	case reflect.Bool:
		to = cty.Bool
	}

	c, err := convert.Convert(v, to)
	switch {
	case err != nil:
		return mismatch(v, dst)
	case to == cty.String:
		dst.SetString(c.AsString())
	case to == cty.Bool:
		dst.SetBool(c.True())
	case dst.CanFloat():
		return setFloat(dst, c)
	default:
		return setInteger(dst, c)
	}

	return nil
}

// setInteger rejects what the type cannot have: a conversion would change the number silently.
func setInteger(dst reflect.Value, v cty.Value) error {
	n, ok := wholeNumber(v)
	switch {
	case !ok:
		return fmt.Errorf("got a fraction; expected %s",
			expected(dst.Type()))
	case dst.CanInt() && n.IsInt64() && !dst.OverflowInt(n.Int64()):
		dst.SetInt(n.Int64())
	case dst.CanUint() && n.IsUint64() && !dst.OverflowUint(n.Uint64()):
		dst.SetUint(n.Uint64())
	default:
		return fmt.Errorf("the number is out of range; expected %s",
			expected(dst.Type()))
	}
	return nil
}

// wholeNumber returns a number without fraction. For a number beyond all integer types it returns one that
// is out of range, because 1e999999999 would take all memory.
func wholeNumber(v cty.Value) (*big.Int, bool) {
	f := v.AsBigFloat()
	if f.IsInf() ||
		f.IsInt() && f.MantExp(nil) > 64 {
		return new(big.Int).Lsh(big.NewInt(1), 65), true
	}
	if !f.IsInt() {
		return nil, false
	}
	n, _ := f.Int(nil)
	return n, true
}

// tooLong reports whether a number has very many digits.
func tooLong(v cty.Value) bool {
	f := v.AsBigFloat()
	exponent := f.MantExp(nil)
	return f.IsInf() || exponent > maxExponent || exponent < -maxExponent
}

// setFloat sets a number. Its last digits may change, as in any program.
func setFloat(dst reflect.Value, v cty.Value) error {
	f, _ := v.AsBigFloat().Float64()
	if math.IsInf(f, 0) {
		return errRange
	}
	dst.SetFloat(f)
	return nil
}

var errRange = errors.New("the number is out of range")

// plainType returns the Go type in which a field of type any keeps a value.
func plainType(v cty.Value) reflect.Type {
	t := v.Type()
	switch {
	case t == cty.String:
		return reflect.TypeFor[string]()
	case t == cty.Bool:
		return reflect.TypeFor[bool]()
	case isMap(t):
		return reflect.TypeFor[map[string]any]()
	case t != cty.Number:
		return reflect.TypeFor[[]any]()
	}
	n, whole := wholeNumber(v)
	if whole && n.IsInt64() {
		return reflect.TypeFor[int64]()
	}
	return reflect.TypeFor[float64]()
}

// isMap reports whether a type has values by name. In HCL a literal is an object.
func isMap(t cty.Type) bool {
	return t.IsObjectType() || t.IsMapType()
}

// valueName names the type of a value.
func valueName(v cty.Value) string {
	t := v.Type()
	switch {
	case t == cty.String:
		return "a string"
	case t == cty.Bool:
		return "true or false"
	case t == cty.Number:
		return "a number"
	case isMap(t):
		return "a map"
	}
	return "a list"
}

// expected describes the values that a field accepts.
func expected(t reflect.Type) string {
	if t == durationType {
		return `a duration such as "30s"`
	}

	zero := reflect.New(t).Interface()
	if d, ok := zero.(interface{ Expected() string }); ok {
		return d.Expected()
	}

	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Slice:
		return "a list, each element " + expected(t.Elem())
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return "a map"
		}
		return "a map, each value " + expected(t.Elem())

	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Interface:
		return "a value"
	}

	return "a whole number"
}
