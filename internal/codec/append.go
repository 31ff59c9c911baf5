package codec

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// What generated code appends with, beside msgp itself: nil where the Handle writes nil, maps by key.

// AppendPointers appends a slice of structs by pointer.
func AppendPointers[T any](b []byte, s []*T, one func(*T, []byte) ([]byte, error)) (_ []byte, err error) {
	if s == nil {
		return msgp.AppendNil(b), nil
	}
	b = msgp.AppendArrayHeader(b, uint32(len(s)))
	for i, e := range s {
		if b, err = one(e, b); err != nil {
			return b, within(place(i), err)
		}
	}
	return b, nil
}

// AppendSlice appends a slice of anything.
func AppendSlice[E any](b []byte, s []E, one func(*E, []byte) ([]byte, error)) (_ []byte, err error) {
	if s == nil {
		return msgp.AppendNil(b), nil
	}
	b = msgp.AppendArrayHeader(b, uint32(len(s)))
	for i := range s {
		if b, err = one(&s[i], b); err != nil {
			return b, within(place(i), err)
		}
	}
	return b, nil
}

// AppendMap appends a map of anything.
func AppendMap[K ~string, E any](b []byte, m map[K]E, one func(E, []byte) ([]byte, error)) (_ []byte, err error) {
	if m == nil {
		return msgp.AppendNil(b), nil
	}
	b = msgp.AppendMapHeader(b, uint32(len(m)))
	var few [16]K
	for _, k := range sortedKeys(few[:0], m) {
		if b, err = one(m[k], msgp.AppendString(b, string(k))); err != nil {
			return b, within(placeOf(string(k)), err)
		}
	}
	return b, nil
}

// AppendStrings appends a slice of strings.
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

// AppendStringMap appends a map of strings.
func AppendStringMap(b []byte, m map[string]string) []byte {
	if m == nil {
		return msgp.AppendNil(b)
	}
	b = msgp.AppendMapHeader(b, uint32(len(m)))
	var few [64]string
	for _, k := range sortedKeys(few[:0], m) {
		b = msgp.AppendString(msgp.AppendString(b, k), m[k])
	}
	return b
}

func sortedKeys[K cmp.Ordered, E any](keys []K, m map[K]E) []K {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// AppendTime appends a time as msgpack's timestamp (specification, "Timestamp extension type"): in 4, 8 or
// 12 bytes, and nil for the zero time.
func AppendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return msgp.AppendNil(b)
	}
	sec, nsec := t.Unix(), uint64(t.Nanosecond())
	switch packed := nsec<<34 | uint64(sec); {
	case sec < 0 || sec>>34 != 0:
		b = binary.BigEndian.AppendUint32(append(b, 0xc7, 12, timestamp), uint32(nsec))
		return binary.BigEndian.AppendUint64(b, uint64(sec))
	case packed>>32 != 0:
		return binary.BigEndian.AppendUint64(append(b, 0xd7, timestamp), packed)
	default:
		return binary.BigEndian.AppendUint32(append(b, 0xd6, timestamp), uint32(packed))
	}
}

// timestamp is the extension of type -1.
const timestamp = 0xff

// AppendAny appends a value whose type is known at run time only.
func AppendAny(b []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(b), nil
	case string:
		return msgp.AppendString(b, v), nil
	case bool:
		return msgp.AppendBool(b, v), nil
	case int:
		return msgp.AppendInt(b, v), nil
	case int64:
		return msgp.AppendInt64(b, v), nil
	case float64:
		return msgp.AppendFloat64(b, v), nil
	case []any:
		return AppendSlice(b, v, func(v *any, b []byte) ([]byte, error) { return AppendAny(b, *v) })
	case map[string]any:
		return AppendMap(b, v, func(v any, b []byte) ([]byte, error) { return AppendAny(b, v) })
	}
	return Append(b, v)
}

// AppendPointer appends what a pointer points to.
func AppendPointer[E any](b []byte, p *E, one func(*E, []byte) ([]byte, error)) ([]byte, error) {
	if p == nil {
		return msgp.AppendNil(b), nil
	}
	return one(p, b)
}
