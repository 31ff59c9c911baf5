package codecgen

import (
	"cmp"
	"fmt"
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// layout is a struct as the Handle sees it.
type layout struct {
	name     string
	own      []field // in the order of the source
	embedded []field // structs whose fields count as fields of the struct
	flat     []field // all fields that are written, by name on the wire
}

// field is one field of a struct or of a struct that it embeds.
type field struct {
	wire      string // name on the wire
	path      string // from the struct: Indexes.CreateIndex
	typ       types.Type
	omitEmpty bool
}

// layoutOf finds the fields of a struct that go over the wire.
func layoutOf(named *types.Named) (*layout, error) {
	l := &layout{name: named.Obj().Name()}
	if encodesItself(named) {
		return nil, fmt.Errorf("%s has methods that encode it", l.name)
	}

	var err error
	l.own, l.embedded, err = fieldsOf(named)
	if err != nil {
		return nil, err
	}

	l.flat, err = flatten(named, "")
	if err != nil {
		return nil, err
	}

	slices.SortFunc(l.flat, func(a, b field) int {
		return cmp.Compare(a.wire, b.wire)
	})
	var last field
	for _, f := range l.flat {
		if last.wire == f.wire {
			return nil, fmt.Errorf("%s: %s and %s are both %q",
				l.name, last.path, f.path, f.wire)
		}

		last = f
	}

	return l, nil
}

// fieldsOf returns the fields of the struct itself, and the structs that it embeds.
func fieldsOf(named *types.Named) (own, embedded []field, err error) {
	s := named.Underlying().(*types.Struct)
	name := named.Obj().Name()
	for i := range s.NumFields() {
		v := s.Field(i)
		if v.Name() == "_struct" {
			return nil, nil, fmt.Errorf("%s has options for all its fields", name)
		}

		f, ok := taggedField(v, s.Tag(i))
		if !ok {
			continue
		}

		if !v.Embedded() || f.wire != "" {
			f.wire = cmp.Or(f.wire, v.Name())
			own = append(own, f)
			continue
		}

		in, ok := v.Type().(*types.Named)
		if !ok ||
			!isStruct(in) || !v.Exported() {
			return nil, nil, fmt.Errorf("%s embeds %s, which is no exported struct",
				name, v.Type())
		}

		embedded = append(embedded, f)
	}

	return own, embedded, nil
}

// taggedField reads the tag of a field: codec if it has one, else json. Functions and unexported fields never
// go over a wire.
func taggedField(v *types.Var, tag string) (field, bool) {
	f := field{
		path: v.Name(),
		typ:  v.Type(),
	}
	_, isFunc := v.Type().Underlying().(*types.Signature)
	if isFunc || !v.Exported() && !v.Embedded() {
		return f, false
	}

	tags := reflect.StructTag(tag)
	text := cmp.Or(tags.Get("codec"), tags.Get("json"))
	if text == "-" {
		return f, false
	}

	name, options, _ := strings.Cut(text, ",")
	f.wire = name
	f.omitEmpty = slices.Contains(strings.Split(options, ","), "omitempty")
	return f, true
}

// flatten returns the fields of a struct and of all that it embeds. path leads to the struct.
func flatten(named *types.Named, path string) ([]field, error) {
	all, embedded, err := fieldsOf(named)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].path = path + all[i].path
	}
	for _, e := range embedded {
		fields, err := flatten(e.typ.(*types.Named), path+e.path+".")
		if err != nil {
			return nil, err
		}
		all = append(all, fields...)
	}
	return all, nil
}

func isStruct(t types.Type) bool {
	_, ok := t.Underlying().(*types.Struct)
	return ok && !isTime(t)
}

func isTime(t types.Type) bool {
	return t.String() == "time.Time"
}

// encodesItself reports whether the Handle calls methods of the type instead of looking into it.
func encodesItself(t types.Type) bool {
	named, ok := t.(*types.Named)
	if !ok || isTime(t) {
		return false
	}
	for m := range named.Methods() {
		switch m.Name() {
		case "CodecEncodeSelf", "CodecDecodeSelf", "MarshalBinary", "UnmarshalBinary", "CodecMissingField":
			return true
		}
	}
	return false
}
