package wire

import (
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// The functions that generated code reads with. Each reads the usual form of a value and returns the bytes
// after it. Any other form that the Handle reads (bytes for a string, an array for a struct, ...), and any
// value that does not fit, goes to the Handle itself, see ReadOther. nil is the zero value everywhere.

// ReadFields reads a map of the fields of the struct to which v points. field reads the field with the name
// and reports whether the struct has it. Other fields are skipped.
func ReadFields[T any](
	b []byte, v *T, field func(name, b []byte) (rest []byte, known bool, err error),
) ([]byte, error) {
	if !isMap(b) {
		return ReadOther(b, v)
	}
	return readFields(b, field)
}

// readFields is ReadFields for a map. It is compiled once, not for each type.
func readFields(
	b []byte, field func(name, b []byte) (rest []byte, known bool, err error),
) ([]byte, error) {
	n, b, err := readLength(msgp.ReadMapHeaderBytes(b))
	if err != nil {
		return b, err
	}

	for range n {
		var name []byte
		var known bool
		name, b, err = readName(b)
		if err != nil {
			return b, fmt.Errorf("the name of a field: %w", err)
		}

		b, known, err = field(name, b)
		if err != nil {
			return b, fmt.Errorf("%s: %w", name, err)
		}

		// A field that the struct does not have is one of another version.
		if known {
			continue
		}

		b, err = skip(b, deepest)
		if err != nil {
			return b, fmt.Errorf("an unknown field: %w", err)
		}
	}

	return b, nil
}

// readName reads the name of a field, which may share the memory of b.
func readName(b []byte) (name, rest []byte, err error) {
	name, rest, err = readText(b)
	if err != nil {
		var s string
		s, rest, err = readString(b)
		name = []byte(s)
	}

	if err == nil && len(name) == 0 {
		err = errors.New("it is empty")
	}

	return name, rest, err
}

// ReadPointer reads a struct behind a pointer. It makes the struct if the pointer is nil.
func ReadPointer[T any](b []byte, p **T, one structFunc[T]) ([]byte, error) {
	if msgp.IsNil(b) {
		*p = nil
		return b[1:], nil
	}
	if *p == nil {
		*p = new(T)
	}
	return one(*p, b)
}

// ReadPointers reads a list of structs by pointer. It reads into the structs that the list already has.
func ReadPointers[T any](b []byte, s *[]*T, one structFunc[T]) ([]byte, error) {
	if !isArray(b) {
		return ReadOther(b, s)
	}

	n, b, err := readLength(msgp.ReadArrayHeaderBytes(b))
	if err != nil {
		return b, err
	}

	if *s != nil && n <= cap(*s) {
		*s = (*s)[:n]
	} else {
		had := *s
		// Each element takes a byte at least, so the length of the source bounds the list: see readLength.
		*s = make([]*T, n)
		copy(*s, had)
	}

	for i := range *s {
		b, err = ReadPointer(b, &(*s)[i], one)
		if err != nil {
			return b, err
		}
	}

	return b, nil
}

// CapacityAtOnce is how many elements of a list or map get memory before they have been read.
const CapacityAtOnce = 64

// ReadSlice reads a list. It reads into the elements that the list already has, if it has capacity for all.
func ReadSlice[E any](b []byte, s *[]E, one structFunc[E]) ([]byte, error) {
	if !isArray(b) {
		return ReadOther(b, s)
	}

	n, b, err := readLength(msgp.ReadArrayHeaderBytes(b))
	if err != nil {
		return b, err
	}

	if n <= cap(*s) && *s != nil {
		*s = (*s)[:n]
	} else {
		// An element may be far larger than the byte that it takes, so a length alone gets little memory.
		*s = make([]E, min(n, CapacityAtOnce))
	}

	for i := range n {
		if i == len(*s) {
			*s = append(*s, *new(E))
		}

		e := &(*s)[i]
		if msgp.IsNil(b) {
			*e = *new(E)
			b = b[1:]
			continue
		}

		b, err = one(e, b)
		if err != nil {
			return b, err
		}
	}

	return b, nil
}

// ReadStrings reads a list of strings.
func ReadStrings(b []byte, s *[]string) ([]byte, error) {
	return ReadSlice(b, s, func(e *string, b []byte) ([]byte, error) {
		return ReadString(b, e)
	})
}

// ReadMap reads into a map of structs by pointer. It makes the map if it is nil.
func ReadMap[T any](b []byte, m *map[string]*T, one structFunc[T]) ([]byte, error) {
	return readEntries(b, m, func(e *T, b []byte) (*T, []byte, error) {
		rest, err := ReadPointer(b, &e, one)
		return e, rest, err
	})
}

// ReadStringMap reads into a map of strings. It makes the map if it is nil.
func ReadStringMap(b []byte, m *map[string]string) ([]byte, error) {
	return readEntries(b, m, func(_ string, b []byte) (string, []byte, error) {
		return readString(b)
	})
}

// ReadIntMap reads into a map of whole numbers. It makes the map if it is nil.
func ReadIntMap(b []byte, m *map[string]int) ([]byte, error) {
	return readEntries(b, m, func(n int, b []byte) (int, []byte, error) {
		rest, err := ReadInt(b, &n)
		return n, rest, err
	})
}

// ReadFloatMap reads into a map of numbers. It makes the map if it is nil.
func ReadFloatMap(b []byte, m *map[string]float64) ([]byte, error) {
	return readEntries(b, m, func(n float64, b []byte) (float64, []byte, error) {
		rest, err := ReadFloat(b, &n)
		return n, rest, err
	})
}

// readEntries reads into a map. one reads a value, and gets the value that the map has under the key.
func readEntries[E any](
	b []byte, m *map[string]E, one func(had E, b []byte) (E, []byte, error),
) ([]byte, error) {
	if !isMap(b) {
		return ReadOther(b, m)
	}

	n, b, err := readLength(msgp.ReadMapHeaderBytes(b))
	if err != nil {
		return b, err
	}

	if *m == nil {
		*m = make(map[string]E, min(n, CapacityAtOnce))
	}

	for range n {
		var key string
		var value E
		key, b, err = readString(b)
		if err != nil {
			return b, err
		}

		value, b, err = one((*m)[key], b)
		if err != nil {
			return b, err
		}

		(*m)[key] = value
	}

	return b, nil
}
