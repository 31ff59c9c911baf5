package conf

import (
	"bytes"
	"fmt"
	"reflect"

	"berth/structs"
	"berth/structs/validate/field"
)

// JSONFaults is the error of a source with faults.
type JSONFaults struct {
	List   []*JSONFault // the first structs.MaxFaults, in the order of the source
	Partly bool         // the target has all parts without faults
	More   int          // faults that are only counted
}

// Error returns a line for each fault.
func (f *JSONFaults) Error() string {
	var all field.Faults
	for _, one := range f.List {
		all.Add(one.Error())
	}
	for range f.More {
		all.Add("")
	}
	return all.String()
}

// Add adds a fault, or counts it.
func (f *JSONFaults) Add(fault *JSONFault) {
	if f.full() {
		f.More++
		return
	}
	f.List = append(f.List, fault)
}

// full reports whether further faults are only counted.
func (f *JSONFaults) full() bool { return len(f.List) == structs.MaxFaults }

// JSONFault is a fault at a position of the source. Lines and columns count from 1; a fault without a
// position has line 0.
type JSONFault struct {
	Text   string // with the path of the field before it
	Offset int
	Line   int
	Column int // in bytes
	// Lost is the field that the target lacks because of the fault, or of which it lacks an element, or "".
	// With Empty the target has an object without fields for the element.
	Lost  string
	Empty bool
}

// Error returns the text, followed by the position.
func (f *JSONFault) Error() string {
	if f.Line == 0 {
		return f.Text
	}
	return fmt.Sprintf("%s (line %d, column %d)", f.Text, f.Line, f.Column)
}

// addFault adds a fault at a position in the source. It only counts one beyond the bound.
func (w *walker) addFault(start int, in *place, format string, args ...any) {
	if w.faults.full() {
		w.faults.Add(nil)
		return
	}

	// The line is counted for a fault only, since few sources have one.
	before := w.src[:min(max(start, 0), len(w.src))]
	path := in.path()
	if path != "" {
		path += ": "
	}

	w.faults.Add(&JSONFault{
		Text:   path + fmt.Sprintf(format, args...),
		Offset: len(before),
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Lost:   in.field(),
	})
}

// wrongValue is a value that does not fit the target.
type wrongValue struct {
	start, end int
	instead    string
}

// addWrong adds the fault of a value that was just read, and keeps the value from the target.
func (w *walker) addWrong(start int, in *place, format string, args ...any) {
	w.addFault(start, in, format, args...)
	// The source has too many faults to be decoded at all: see DecodeJSON.
	if w.faults.More > 0 {
		return
	}

	instead := "null"
	if in.isObject() { // others may refer to the number or the key of the element
		instead = "{}"
		w.faults.List[len(w.faults.List)-1].Empty = true
	}

	w.wrong = append(w.wrong, wrongValue{start, w.at, instead})
}

// place is a place in the target.
type place struct {
	in    *place // nil for the whole target
	step  step   // from in to this place
	name  string // of a field, or the key of an element of a map
	index int    // of an element of a list
	typ   reflect.Type
}

type step int

const (
	toField step = iota
	toElement
	toValue
)

// child returns the place of a key of an object: an element of a map, or a field. The type of a field that
// the target does not know is nil.
func (p *place) child(key []byte) place {
	if p.typ.Kind() == reflect.Map {
		return place{
			in:   p,
			step: toValue,
			name: string(key),
			typ:  p.typ.Elem(),
		}
	}

	name, typ := fieldOf(p.typ, key)
	return place{
		in:   p,
		name: name,
		typ:  typ,
	}
}

// path returns the fields, indexes and keys that lead to the place, with long names cut.
func (p *place) path() string {
	if p.in == nil {
		return ""
	}

	before := p.in.path()
	shown := structs.Cut(p.name, structs.MaxQuoted)
	switch {
	case p.step == toElement:
		return fmt.Sprintf("%s[%d]", before, p.index)
	case p.step == toValue:
		return fmt.Sprintf("%s[%q]", before, shown)
	case before == "":
		return shown
	}

	return before + "." + shown
}

// field returns the name of the innermost field.
func (p *place) field() string {
	for ; p.in != nil; p = p.in {
		if p.step == toField {
			return p.name
		}
	}
	return ""
}

// isObject reports whether the place is an element that is an object.
func (p *place) isObject() bool {
	return p.in != nil &&
		p.step != toField &&
		kindName(p.typ.Kind()) == "an object" &&
		!opaque(p.typ)
}
