package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// What generated code reads with. Each takes what the Handle writes by the short way; whatever else the
// Handle takes (bytes for a string, an array for a struct, ...), and whatever nobody takes, is left to the
// Handle itself, see otherwise. nil is the zero value everywhere.

var (
	errEnds  = errors.New("it ends early")
	errDepth = errors.New("it is nested too deeply")
)

// deepest is how deep values of unknown shape may be nested: less than the Handle allows.
const deepest = 1000

// ReadFields reads a map of the fields of the struct to which v points. field reads the one of the name and
// says whether there is one; others are skipped.
func ReadFields(b []byte, v any, field func(name, b []byte) (rest []byte, known bool, err error)) ([]byte, error) {
	if len(b) == 0 {
		return b, errEnds
	}
	if !isMap(b[0]) {
		return otherwise(b, v)
	}
	n, b, err := readLength(msgp.ReadMapHeaderBytes(b))
	if err != nil {
		return b, err
	}
	for range n {
		var name []byte
		var known bool
		if name, b, err = readName(b); err != nil {
			return b, within("a field's name", err)
		}
		if b, known, err = field(name, b); err != nil {
			return b, within(string(name), err)
		}
		if known {
			continue
		}
		if b, err = skip(b, deepest); err != nil {
			return b, within("an unknown field", err)
		}
	}
	return b, nil
}

// readText reads a string, which shares the memory of b. Most are short.
func readText(b []byte) (text, rest []byte, err error) {
	if len(b) > 0 && b[0]&0xe0 == 0xa0 {
		if n := 1 + int(b[0]&0x1f); n <= len(b) {
			return b[1:n], b[n:], nil
		}
	}
	return msgp.ReadStringZC(b)
}

// readName reads the name of a field, which shares the memory of b.
func readName(b []byte) (name, rest []byte, err error) {
	if name, rest, err = readText(b); err != nil {
		var s string
		s, rest, err = other[string](b)
		name = []byte(s)
	}
	if err == nil && len(name) == 0 {
		err = errors.New("it is empty")
	}
	return name, rest, err
}

// ReadPointer reads a struct behind a pointer, which is made if it is nil.
func ReadPointer[T any](b []byte, p **T, one func(*T, []byte) ([]byte, error)) ([]byte, error) {
	if msgp.IsNil(b) {
		*p = nil
		return b[1:], nil
	}
	if *p == nil {
		*p = new(T)
	}
	return one(*p, b)
}

// ReadPointers reads a slice of structs by pointer; what the slice has already is read into.
func ReadPointers[T any](b []byte, s *[]*T, one func(*T, []byte) ([]byte, error)) ([]byte, error) {
	if !isArray(b) {
		return otherwise(b, s)
	}
	n, b, err := readLength(msgp.ReadArrayHeaderBytes(b))
	if err != nil {
		return b, err
	}
	if *s != nil && n <= cap(*s) {
		*s = (*s)[:n]
	} else {
		had := *s
		*s = make([]*T, n)
		copy(*s, had)
	}
	for i := range *s {
		if b, err = ReadPointer(b, &(*s)[i], one); err != nil {
			return b, within(place(i), err)
		}
	}
	return b, nil
}

// roomAtOnce is how many elements of a slice or map are made room for before they have been read.
const roomAtOnce = 64

// ReadSlice reads a slice of anything; what the slice has already is read into where there is room for all.
func ReadSlice[E any](b []byte, s *[]E, one func(*E, []byte) ([]byte, error)) ([]byte, error) {
	if !isArray(b) {
		return otherwise(b, s)
	}
	n, b, err := readLength(msgp.ReadArrayHeaderBytes(b))
	if err != nil {
		return b, err
	}
	if n <= cap(*s) && *s != nil {
		*s = (*s)[:n]
	} else {
		*s = make([]E, min(n, roomAtOnce))
	}
	for i := range n {
		if i == len(*s) {
			*s = append(*s, *new(E))
		}
		if msgp.IsNil(b) {
			(*s)[i], b = *new(E), b[1:]
		} else if b, err = one(&(*s)[i], b); err != nil {
			return b, within(place(i), err)
		}
	}
	return b, nil
}

// ReadMap reads into a map of anything, which is made if it is nil.
func ReadMap[K ~string, E any](b []byte, m *map[K]E, one func(*E, []byte) ([]byte, error)) ([]byte, error) {
	if len(b) == 0 || !isMap(b[0]) {
		return otherwise(b, m)
	}
	n, b, err := readLength(msgp.ReadMapHeaderBytes(b))
	if err != nil {
		return b, err
	}
	if *m == nil {
		*m = make(map[K]E, min(n, roomAtOnce))
	}
	var e, zero E
	for range n {
		entry, k := b, ""
		e = zero
		if k, b, err = readKey(b); err != nil {
			return b, within("a key", err)
		}
		if _, there := (*m)[K(k)]; there {
			b, err = readAgain(entry, b, m)
		} else if msgp.IsNil(b) {
			(*m)[K(k)], b = e, b[1:]
		} else if b, err = one(&e, b); err == nil {
			(*m)[K(k)] = e
		}
		if err != nil {
			return b, within(placeOf(k), err)
		}
	}
	return b, nil
}

// readAgain reads an entry whose key the map has: what becomes of the value that is there is the Handle's
// knowledge.
func readAgain(entry, value []byte, m any) ([]byte, error) {
	rest, err := skip(value, deepest)
	if err != nil {
		return rest, err
	}
	whole := append([]byte{0x81}, entry[:len(entry)-len(rest)]...)
	return rest, decodeByReflection(whole, m)
}

// ReadStrings reads a slice of strings.
func ReadStrings(b []byte, s *[]string) ([]byte, error) { return ReadSlice(b, s, readStringAt) }

func readStringAt(s *string, b []byte) (rest []byte, err error) {
	*s, rest, err = ReadString(b)
	return rest, err
}

// ReadStringMap reads into a map of strings, of which it shares the memory of those that come often.
func ReadStringMap(b []byte, m *map[string]string) ([]byte, error) {
	return readStrings(b, m, ReadShared[string])
}

// ReadSecretMap reads into a map of strings of which nothing is kept.
func ReadSecretMap(b []byte, m *map[string]string) ([]byte, error) {
	return readStrings(b, m, ReadString)
}

func readStrings(b []byte, m *map[string]string, one func([]byte) (string, []byte, error)) ([]byte, error) {
	if len(b) == 0 || !isMap(b[0]) {
		return otherwise(b, m)
	}
	n, b, err := readLength(msgp.ReadMapHeaderBytes(b))
	if err != nil {
		return b, err
	}
	if *m == nil {
		*m = make(map[string]string, min(n, roomAtOnce))
	}
	for range n {
		var k, v string
		if k, b, err = one(b); err != nil {
			return b, within("a key", err)
		}
		if v, b, err = one(b); err != nil {
			return b, within(placeOf(k), err)
		}
		(*m)[k] = v
	}
	return b, nil
}

// readKey reads the key of a map.
func readKey(b []byte) (string, []byte, error) { return ReadShared[string](b) }

// ReadString reads a string.
func ReadString(b []byte) (string, []byte, error) {
	s, rest, err := readText(b)
	if err != nil {
		return other[string](b)
	}
	return string(s), rest, nil
}

// ReadShared reads a string that comes often: where it can, it returns one that is there already.
func ReadShared[S ~string](b []byte) (S, []byte, error) {
	s, rest, err := readText(b)
	if err != nil {
		return other[S](b)
	}
	return S(shared(s)), rest, nil
}

// ReadBool reads a bool.
func ReadBool(b []byte) (bool, []byte, error) {
	v, rest, err := msgp.ReadBoolBytes(b)
	if err != nil {
		return other[bool](b)
	}
	return v, rest, nil
}

// ReadInt reads a signed number.
func ReadInt[I ~int | ~int8 | ~int16 | ~int32 | ~int64](b []byte) (I, []byte, error) {
	if len(b) > 0 && b[0] < 0x80 {
		return I(b[0]), b[1:], nil
	}
	i, rest, err := msgp.ReadInt64Bytes(b)
	if err != nil || int64(I(i)) != i {
		return other[I](b)
	}
	return I(i), rest, nil
}

// ReadUint reads a number that is not negative.
func ReadUint[U ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](b []byte) (U, []byte, error) {
	if len(b) > 0 && b[0] < 0x80 {
		return U(b[0]), b[1:], nil
	}
	u, rest, err := msgp.ReadUint64Bytes(b)
	if err != nil || uint64(U(u)) != u {
		return other[U](b)
	}
	return U(u), rest, nil
}

// ReadFloat reads a float64.
func ReadFloat(b []byte) (float64, []byte, error) {
	if len(b) < 9 || b[0] != 0xcb {
		return other[float64](b)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b[1:])), b[9:], nil
}

// ReadTime reads a time, which is UTC.
func ReadTime(b []byte) (time.Time, []byte, error) {
	switch {
	case msgp.IsNil(b):
		return time.Time{}, b[1:], nil
	case len(b) >= 6 && b[0] == 0xd6 && b[1] == timestamp:
		return time.Unix(int64(binary.BigEndian.Uint32(b[2:])), 0).UTC(), b[6:], nil
	case len(b) >= 10 && b[0] == 0xd7 && b[1] == timestamp:
		packed := binary.BigEndian.Uint64(b[2:])
		return time.Unix(int64(packed&(1<<34-1)), int64(packed>>34)).UTC(), b[10:], nil
	}
	return other[time.Time](b)
}

// ReadAny reads a value of any shape. Into what is not nil it is read as into a value of that type.
func ReadAny(b []byte, v *any) ([]byte, error) {
	if *v != nil {
		return otherwise(b, v)
	}
	return readAny(b, v, deepest)
}

func readAny(b []byte, v *any, depth int) (rest []byte, err error) {
	if depth == 0 {
		return b, errDepth
	}
	deeper := func(v *any, b []byte) ([]byte, error) {
		if *v != nil {
			return otherwise(b, v)
		}
		return readAny(b, v, depth-1)
	}
	switch msgp.NextType(b) {
	case msgp.NilType:
		*v = nil
		return b[1:], nil
	case msgp.StrType:
		*v, rest, err = ReadString(b)
	case msgp.BoolType:
		*v, rest, err = ReadBool(b)
	case msgp.IntType:
		*v, rest, err = ReadInt[int64](b)
	case msgp.Float64Type:
		*v, rest, err = ReadFloat(b)
	case msgp.ArrayType:
		var s []any
		rest, err = ReadSlice(b, &s, deeper)
		*v = s
	case msgp.MapType:
		var m map[string]any
		rest, err = ReadMap(b, &m, deeper)
		*v = m
	default:
		*v, rest, err = other[any](b)
	}
	return rest, err
}

// otherwise lets the Handle read one value into what v points to.
func otherwise(b []byte, v any) ([]byte, error) {
	rest, err := skip(b, deepest)
	if err != nil {
		return b, err
	}
	return rest, decodeByReflection(b[:len(b)-len(rest)], v)
}

// other lets the Handle read one value of a type.
func other[T any](b []byte) (v T, rest []byte, err error) {
	if msgp.IsNil(b) {
		return v, b[1:], nil
	}
	rest, err = otherwise(b, &v)
	return v, rest, err
}

// readLength checks a length against the bytes that are left, of which each element takes one at least.
func readLength(n uint32, rest []byte, err error) (int, []byte, error) {
	if err != nil {
		return 0, rest, err
	}
	if uint64(n) > uint64(len(rest)) {
		return 0, rest, fmt.Errorf("%w: %d elements in %d bytes", errEnds, n, len(rest))
	}
	return int(n), rest, nil
}

func isMap(lead byte) bool { return lead&0xf0 == 0x80 || lead == 0xde || lead == 0xdf }

func isArray(b []byte) bool {
	return len(b) > 0 && (b[0]&0xf0 == 0x90 || b[0] == 0xdc || b[0] == 0xdd)
}

// skip returns what follows one value, which may be nested so deep. What the Handle would not skip either is
// an error.
func skip(b []byte, depth int) (rest []byte, err error) {
	if depth == 0 {
		return b, errDepth
	}
	if len(b) == 0 {
		return b, errEnds
	}
	var n uint32
	values := uint64(1)
	switch {
	case isArray(b):
		n, rest, err = msgp.ReadArrayHeaderBytes(b)
	case isMap(b[0]):
		n, rest, err = msgp.ReadMapHeaderBytes(b)
		values = 2
	default:
		if rest, err = msgp.Skip(b); err == nil {
			err = checkExtension(b[:len(b)-len(rest)])
		}
		return rest, err
	}
	for values *= uint64(n); err == nil && values > 0; values-- {
		rest, err = skip(rest, depth-1)
	}
	return rest, err
}

// checkExtension refuses extensions that are empty, and timestamps of no length that a timestamp has.
func checkExtension(b []byte) error {
	head, isExtension := extensionHead[b[0]]
	if !isExtension {
		return nil
	}
	data := len(b) - head
	if data == 0 || b[head-1] == timestamp && data != 4 && data != 8 && data != 12 {
		return fmt.Errorf("an extension of %d bytes", data)
	}
	return nil
}

// extensionHead is how many bytes come before the data of an extension.
var extensionHead = map[byte]int{0xd4: 2, 0xd5: 2, 0xd6: 2, 0xd7: 2, 0xd8: 2, 0xc7: 3, 0xc8: 4, 0xc9: 6}
