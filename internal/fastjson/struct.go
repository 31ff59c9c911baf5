package fastjson

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// field is a field of a struct, or of one embedded in it.
type field struct {
	path  []int // of indexes, through embedded structs
	name  string
	head  string // the name in quotes, with its colon
	omit  bool   // when it is empty
	write writer
}

// structWriter writes the fields in the order of encoding/json: of two with one name the one that is embedded
// less deeply. encoding/json itself writes structs in which both are as deep, and those with a tag that has
// more than a name and omitempty.
func (p plan) structWriter(t reflect.Type) writer {
	fields, ok := p.structFields(t, nil)
	if !ok {
		return byLibrary
	}

	depths := map[string]int{}
	for _, f := range fields {
		depth, twice := depths[f.name]
		if twice && depth == len(f.path) {
			return byLibrary
		}
		if !twice || len(f.path) < depth {
			depths[f.name] = len(f.path)
		}
	}
	fields = slices.DeleteFunc(fields, func(f field) bool { return len(f.path) > depths[f.name] })

	return func(b []byte, v reflect.Value, e *Encoder) []byte {
		b = append(b, '{')
		first := len(b)
		for i := range fields {
			f := &fields[i]
			at := v
			for _, index := range f.path {
				at = at.Field(index)
			}

			if f.omit && isEmpty(at) {
				continue
			}

			if len(b) > first {
				b = append(b, ',')
			}

			b = append(b, f.head...)
			b = f.write(b, at, e)
		}

		return append(b, '}')
	}
}

// structFields returns the fields of a struct that a path leads to. It is not ok for a struct that
// encoding/json has to write.
func (p plan) structFields(t reflect.Type, path []int) (fields []field, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" ||
			!f.IsExported() && !f.Anonymous {
			continue
		}

		at := append(slices.Clone(path), i)
		if f.Anonymous && name == "" {
			if f.Type.Kind() != reflect.Struct || options != "" {
				return nil, false
			}

			inner, ok := p.structFields(f.Type, at)
			if !ok {
				return nil, false
			}

			fields = append(fields, inner...)
			continue
		}

		known := options == "" || options == "omitempty"
		if !known || !f.IsExported() ||
			!isOrdinary(name) {
			return nil, false
		}

		if name == "" {
			name = f.Name
		}

		head, _ := json.Marshal(name) // every string can be written
		fields = append(fields, field{
			path:  at,
			name:  name,
			head:  string(head) + ":",
			omit:  options == "omitempty",
			write: p.writer(f.Type),
		})
	}
	return fields, true
}

// isOrdinary reports whether encoding/json surely accepts a name in a tag.
func isOrdinary(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' &&
			(r < '0' || r > '9') &&
			(r < 'a' || r > 'z') &&
			(r < 'A' || r > 'Z')
	})
}

// isEmpty reports whether omitempty leaves the value out.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map,
		reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
