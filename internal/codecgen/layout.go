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
	named    *types.Named
	own      []field // in the order of the source
	embedded []field // structs whose fields count as the struct's own
	flat     []field // all that is written, by name on the wire
}

// field is one field of a struct, its own or of what it embeds.
type field struct {
	wire      string // name on the wire
	path      string // from the struct: Indexes.CreateIndex
	typ       types.Type
	omitEmpty bool
	depth     int
}

func (l *layout) name() string { return l.named.Obj().Name() }

// layoutOf finds the fields of a struct that go over the wire. Of two with one name the one that is less
// deeply embedded counts.
func layoutOf(named *types.Named) (*layout, error) {
	l := &layout{named: named}
	if hasOwnCodec(named) {
		return nil, fmt.Errorf("%s writes itself: it cannot have a generated codec, too", l.name())
	}
	own, embedded, err := fieldsOf(named)
	if err != nil {
		return nil, err
	}
	l.own, l.embedded = own, embedded
	byName := map[string]field{}
	if err := flatten(named, "", 0, byName); err != nil {
		return nil, err
	}
	for _, f := range byName {
		l.flat = append(l.flat, f)
	}
	slices.SortFunc(l.flat, func(a, b field) int { return cmp.Compare(a.wire, b.wire) })
	return l, nil
}

// fieldsOf are the fields of the struct itself, and what it embeds.
func fieldsOf(named *types.Named) (own, embedded []field, err error) {
	s := named.Underlying().(*types.Struct)
	for i := range s.NumFields() {
		v := s.Field(i)
		if v.Name() == "_struct" {
			return nil, nil, fmt.Errorf("%s has options for all its fields", named.Obj().Name())
		}
		f, on := tagged(v, s.Tag(i))
		if !on {
			continue
		}
		if !v.Embedded() || f.wire != "" {
			f.wire = cmp.Or(f.wire, v.Name())
			own = append(own, f)
			continue
		}
		if in, ok := v.Type().(*types.Named); !ok || !isStruct(in) || !v.Exported() {
			return nil, nil, fmt.Errorf("%s embeds %s, which is no exported struct", named.Obj().Name(), v.Type())
		}
		embedded = append(embedded, f)
	}
	return own, embedded, nil
}

// tagged reads a field's tag: codec if it has one, else json. Functions and what is not exported never go over
// a wire.
func tagged(v *types.Var, tag string) (field, bool) {
	f := field{path: v.Name(), typ: v.Type()}
	if _, isFunc := v.Type().Underlying().(*types.Signature); isFunc || !v.Exported() && !v.Embedded() {
		return f, false
	}
	said := cmp.Or(reflect.StructTag(tag).Get("codec"), reflect.StructTag(tag).Get("json"))
	if said == "-" {
		return f, false
	}
	name, options, _ := strings.Cut(said, ",")
	f.wire = name
	f.omitEmpty = slices.Contains(strings.Split(options, ","), "omitempty")
	return f, true
}

// flatten adds the fields of a struct that is embedded so deep under a path.
func flatten(named *types.Named, path string, depth int, into map[string]field) error {
	own, embedded, err := fieldsOf(named)
	if err != nil {
		return err
	}
	for _, f := range own {
		f.path, f.depth = path+f.path, depth
		other, there := into[f.wire]
		if there && other.depth == depth {
			return fmt.Errorf("%s and %s are both %q", other.path, f.path, f.wire)
		}
		if !there || depth < other.depth {
			into[f.wire] = f
		}
	}
	for _, e := range embedded {
		if err := flatten(e.typ.(*types.Named), path+e.path+".", depth+1, into); err != nil {
			return err
		}
	}
	return nil
}

func isStruct(t types.Type) bool {
	_, ok := t.Underlying().(*types.Struct)
	return ok && !isTime(t)
}

func isTime(t types.Type) bool { return t.String() == "time.Time" }
