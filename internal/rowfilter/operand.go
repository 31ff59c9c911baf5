package rowfilter

import (
	"errors"
	"reflect"
	"regexp"
	"strconv"
)

// operand is what a condition compares values with, read as each kind of value when one first comes.
type operand struct {
	raw     string
	boolean read[bool]
	signed  read[int64]
	natural read[uint64]
	single  read[float32]
	double  read[float64]

	keyOf reflect.Type // the map seen last, and
	key   reflect.Value

	pattern *regexp.Regexp
	size    int // of pattern
}

// read is what a text is as a T, or why it is none.
type read[T comparable] struct {
	done  bool
	value T
	err   error
}

// as reads the text once.
func (r *read[T]) as(raw string, parse func(string) (T, error)) *read[T] {
	if !r.done {
		r.value, r.err = parse(raw)
		r.done = true
	}
	return r
}

func (r *read[T]) equals(v T) (bool, error) { return r.value == v, r.err }

func parseInt(s string) (int64, error)      { return strconv.ParseInt(s, 0, 64) }
func parseUint(s string) (uint64, error)    { return strconv.ParseUint(s, 0, 64) }
func parseDouble(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

func parseSingle(s string) (float32, error) {
	f, err := strconv.ParseFloat(s, 32)
	return float32(f), err
}

var errIncomparable = errors.New("a value of this kind is equal to nothing")

// equals fails if the operand is no value of v's kind, or values of this kind are not compared.
func (o *operand) equals(v reflect.Value) (bool, error) {
	switch kind := v.Kind(); kind {
	case reflect.String:
		return v.String() == o.raw, nil
	case reflect.Bool:
		return o.boolean.as(o.raw, strconv.ParseBool).equals(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return o.signed.as(o.raw, parseInt).equals(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return o.natural.as(o.raw, parseUint).equals(v.Uint())
	case reflect.Float32:
		return o.single.as(o.raw, parseSingle).equals(float32(v.Float()))
	case reflect.Float64:
		return o.double.as(o.raw, parseDouble).equals(v.Float())
	}
	return false, errIncomparable
}

// zeros has a value of each kind that is compared.
var zeros = func() map[reflect.Kind]reflect.Value {
	of := map[reflect.Kind]reflect.Value{}
	for _, v := range []any{
		"", false, 0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0), float32(0), float64(0),
	} {
		of[reflect.TypeOf(v).Kind()] = reflect.ValueOf(v)
	}
	return of
}()

// fits tells why the operand cannot be equal to values of a kind, nil if it can.
func (o *operand) fits(kind reflect.Kind) error {
	_, err := o.equals(zeros[kind])
	return err
}
