package rowfilter

import (
	"encoding/json"
	"reflect"
	"strconv"
)

var jsonNumber = reflect.TypeFor[json.Number]()

// selector finds the value that a path of names leads to: from the row, or from where a loop is.
type selector struct {
	loop   int // -1: from the row
	name   binding
	top    string // the row's field
	topOf  reflect.Type
	topAt  []int // where the field is in topOf, nil if it has none
	steps  []step
	broken bool
}

// binding is what of a loop a name stands for.
type binding int8

const (
	bindEither binding = iota // the key of a map, the value of a list
	bindKey
	bindValue
)

func (c *compiler) selector(path []string) *selector {
	s := &selector{loop: -1, top: path[0]}
	for i := len(c.scope) - 1; i >= 0 && s.loop < 0; i-- {
		switch n := c.scope[i]; path[0] {
		case "": // no name, as those that a loop does not give
		case n.Value:
			s.loop, s.name, s.broken = i, bindValue, n.broken
		case n.Index:
			s.loop, s.name = i, bindKey
		case n.Default:
			s.loop, s.name = i, bindEither
		}
	}
	for _, part := range path[1:] {
		s.steps = append(s.steps, step{name: part, index: indexOf(part)})
	}
	return s
}

// find says yes with the value, which is not valid where there is nothing; no where the last part is a key
// that its map does not have; or that it is not sure.
func (s *selector) find(f *Filter) (v reflect.Value, a answer) {
	if s.loop < 0 {
		v, a = s.fromRow(f)
	} else {
		v, a = s.fromLoop(&f.loops[s.loop])
	}
	for i := 0; a == yes && i < len(s.steps); i++ {
		v, a = s.steps[i].from(v)
		if a == no && i < len(s.steps)-1 {
			a = unsure
		}
	}
	if a == yes && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v, a
}

func (s *selector) fromRow(f *Filter) (reflect.Value, answer) {
	if t := f.row.Type(); s.topOf != t {
		s.topOf, s.topAt = t, nil
		if field, ok := t.FieldByName(s.top); ok && isPromoted(field) {
			s.topAt = field.Index
		}
	}
	if s.topAt == nil {
		f.unknown = s.top
		return reflect.Value{}, unsure
	}
	v, err := f.row.FieldByIndexErr(s.topAt)
	if err != nil {
		return v, unsure
	}
	return v, yes
}

func (s *selector) fromLoop(l *loop) (reflect.Value, answer) {
	switch {
	case s.broken:
		return reflect.Value{}, unsure
	case s.name == bindValue || s.name == bindEither && !l.isMap:
		return l.value, yes
	case len(s.steps) > 0: // a key has no parts
		return reflect.Value{}, unsure
	}
	return l.key, yes
}

// step is one part of a path. It remembers what it means in the type it saw last.
type step struct {
	name  string
	index int // in a list, -1 if it is none
	in    reflect.Type
	field int           // of a struct, -1 if not plainly one
	key   reflect.Value // of a map, not valid if its keys are no texts
}

func (s *step) from(v reflect.Value) (reflect.Value, answer) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	direct := v.Kind() == reflect.Map // else go-bexpr does not see that a key is missing from a map
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.IsValid() && v.Type() != s.in {
		s.learn(v.Type())
	}
	switch k := v.Kind(); {
	case k == reflect.Struct && s.field >= 0:
		return v.Field(s.field), yes
	case (k == reflect.Slice || k == reflect.Array) && s.index >= 0 && s.index < v.Len():
		return v.Index(s.index), yes
	case k == reflect.Map && s.key.IsValid():
		if found := v.MapIndex(s.key); found.IsValid() {
			return found, yes
		}
		if direct {
			return reflect.Value{}, no
		}
	}
	return reflect.Value{}, unsure
}

func (s *step) learn(t reflect.Type) {
	s.in, s.field, s.key = t, -1, reflect.Value{}
	switch t.Kind() {
	case reflect.Struct:
		s.field = fieldOf(t, s.name)
	case reflect.Map:
		s.key = textKey(t, s.name)
	}
}

// textKey is a text as the key of a map, not valid if the map's keys are no texts.
func textKey(t reflect.Type, text string) reflect.Value {
	if t.Key().Kind() != reflect.String {
		return reflect.Value{}
	}
	return reflect.ValueOf(text).Convert(t.Key())
}

// fieldOf is the place of a struct's own field: those of embedded structs are promoted in rows alone. Structs
// with tags for go-bexpr are left to it.
func fieldOf(t reflect.Type, name string) int {
	at := -1
	for i := range t.NumField() {
		f := t.Field(i)
		if f.IsExported() && f.Tag.Get("bexpr") != "" {
			return -1
		}
		if f.IsExported() && f.Name == name {
			at = i
		}
	}
	return at
}

// indexOf is the place in a list that a part of a path is, read as go-bexpr does; -1 if it is none.
func indexOf(part string) int {
	if part == "" {
		return 0
	}
	i, err := strconv.ParseInt(part, 0, strconv.IntSize)
	if err != nil {
		return -1
	}
	return int(i)
}
