// Package wire has the functions that generated codecs call. It is apart from package codec, whose library
// has many packages: a program that imports structs and encodes nothing, as the supervisor of a task, has
// none of them, and starts faster.
package wire

import (
	"encoding/binary"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// The functions with which generated code appends values, in addition to msgp's. They write nil where
// the Handle writes nil, and maps by key.

// structFunc is a generated method of a struct, or a function of that shape: it appends the struct to b and
// returns the longer b, or reads the struct from b and returns the bytes after it.
type structFunc[T any] func(v *T, b []byte) ([]byte, error)

// AppendPointers appends a list of structs by pointer.
func AppendPointers[T any](b []byte, s []*T, one structFunc[T]) (_ []byte, err error) {
	if s == nil {
		return msgp.AppendNil(b), nil
	}

	b = msgp.AppendArrayHeader(b, uint32(len(s)))
	for _, e := range s {
		b, err = one(e, b)
		if err != nil {
			return b, err
		}
	}

	return b, nil
}

// AppendSlice appends a list of structs.
func AppendSlice[T any](b []byte, s []T, one structFunc[T]) (_ []byte, err error) {
	if s == nil {
		return msgp.AppendNil(b), nil
	}

	b = msgp.AppendArrayHeader(b, uint32(len(s)))
	for i := range s {
		b, err = one(&s[i], b)
		if err != nil {
			return b, err
		}
	}

	return b, nil
}

// AppendMap appends a map of structs by pointer.
func AppendMap[T any](b []byte, m map[string]*T, one structFunc[T]) (_ []byte, err error) {
	if m == nil {
		return msgp.AppendNil(b), nil
	}

	b = msgp.AppendMapHeader(b, uint32(len(m)))
	var few [16]string
	for _, k := range sortedKeys(few[:0], m) {
		b = msgp.AppendString(b, k)
		b, err = one(m[k], b)
		if err != nil {
			return b, err
		}
	}

	return b, nil
}

// AppendStrings appends a list of strings.
func AppendStrings(b []byte, s []string) []byte {
	if s == nil {
		return msgp.AppendNil(b)
	}
	b = msgp.AppendArrayHeader(b, uint32(len(s)))
	for _, e := range s {
		b = msgp.AppendString(b, e)
	}
	return b
}

// AppendStringMap appends a map by key. It sorts up to 64 keys without a heap allocation.
func AppendStringMap(b []byte, m map[string]string) []byte {
	if m == nil {
		return msgp.AppendNil(b)
	}

	b = msgp.AppendMapHeader(b, uint32(len(m)))
	// The array is on the stack.
	var few [64]string
	for _, k := range sortedKeys(few[:0], m) {
		b = msgp.AppendString(b, k)
		b = msgp.AppendString(b, m[k])
	}

	return b
}

// AppendIntMap appends a map of whole numbers.
func AppendIntMap(b []byte, m map[string]int) []byte {
	return appendNumbers(b, m, func(b []byte, n int) []byte {
		return msgp.AppendInt64(b, int64(n))
	})
}

// AppendFloatMap appends a map of numbers.
func AppendFloatMap(b []byte, m map[string]float64) []byte {
	return appendNumbers(b, m, msgp.AppendFloat64)
}

func appendNumbers[N any](b []byte, m map[string]N, one func([]byte, N) []byte) []byte {
	if m == nil {
		return msgp.AppendNil(b)
	}

	b = msgp.AppendMapHeader(b, uint32(len(m)))
	var few [16]string
	for _, k := range sortedKeys(few[:0], m) {
		b = msgp.AppendString(b, k)
		b = one(b, m[k])
	}

	return b
}

// sortedKeys appends the keys of a map to an empty list, in order.
func sortedKeys[E any](keys []string, m map[string]E) []string {
	keys = slices.AppendSeq(keys, maps.Keys(m))
	slices.Sort(keys)
	return keys
}

// AppendTime appends a time as a timestamp of msgpack (specification, "Timestamp extension type"): in 4, 8 or
// 12 bytes, and nil for the zero time.
func AppendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return msgp.AppendNil(b)
	}

	sec := t.Unix()
	nsec := uint64(t.Nanosecond())
	switch packed := nsec<<34 | uint64(sec); {
	// Seconds of 34 bits reach to the year 2514.
	case sec < 0 || sec>>34 != 0:
		b = append(b, 0xc7, 12, timestamp)
		b = binary.BigEndian.AppendUint32(b, uint32(nsec))
		return binary.BigEndian.AppendUint64(b, uint64(sec))
	case packed>>32 != 0:
		b = append(b, 0xd7, timestamp)
		return binary.BigEndian.AppendUint64(b, packed)
	default:
		b = append(b, 0xd6, timestamp)
		return binary.BigEndian.AppendUint32(b, uint32(packed))
	}
}

// timestamp is the extension of type -1.
const timestamp = 0xff

// Reflection encodes and decodes values that have no generated codec.
type Reflection interface {
	Append(b []byte, v any) ([]byte, error)
	Decode(b []byte, v any) error
}

// Others is what the functions of this package use for such values, and for unusual encodings. Package codec
// sets it.
var Others Reflection = missing{}

// missing is the Reflection of a program without package codec.
type missing struct{}

var errMissing = errors.New("the program does not import package codec")

func (missing) Append(b []byte, _ any) ([]byte, error) { return b, errMissing }

func (missing) Decode([]byte, any) error { return errMissing }

// AppendOther appends the value that p points to by reflection.
func AppendOther[T any](b []byte, p *T) ([]byte, error) {
	v := reflect.ValueOf(p).Elem()
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return msgp.AppendNil(b), nil
		}
	}
	return Others.Append(b, p)
}
