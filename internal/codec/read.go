package codec

import (
	"errors"

	"github.com/tinylib/msgp/msgp"
)

// What generated code reads with. Each takes what the Handle writes by the short way; whatever else the
// Handle takes (bytes for a string, an array for a struct, ...), and whatever nobody takes, is left to the
// Handle itself, see otherwise. nil is the zero value everywhere.

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
		if k, b, err = ReadString(b); err != nil {
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

// ReadStringMap reads into a map of strings, which is made if it is nil.
func ReadStringMap(b []byte, m *map[string]string) ([]byte, error) {
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
		if k, b, err = ReadString(b); err != nil {
			return b, within("a key", err)
		}
		if v, b, err = ReadString(b); err != nil {
			return b, within(placeOf(k), err)
		}
		(*m)[k] = v
	}
	return b, nil
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
