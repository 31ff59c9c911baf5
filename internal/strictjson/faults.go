package strictjson

import (
	"bytes"
	"fmt"
	"reflect"

	"berth/structs"
)

// Faults is the error of a source with faults.
type Faults struct {
	List   []*Fault // the first structs.MaxFaults, in the order of the source
	Partly bool     // the target has all parts without faults
	More   int      // faults that are only counted
}

// Error returns a line for each fault.
func (f *Faults) Error() string {
	var all structs.Faults
	for _, one := range f.List {
		all.Add(one.Error())
	}
	for range f.More {
		all.Add("")
	}
	return all.String()
}

// Add adds a fault, or counts it.
func (f *Faults) Add(fault *Fault) {
	if f.full() {
		f.More++
		return
	}
	f.List = append(f.List, fault)
}

// full reports whether further faults are only counted.
func (f *Faults) full() bool { return len(f.List) == structs.MaxFaults }

// Fault is a fault at a position of the source. Lines and columns count from 1; a fault without a position
// has line 0.
type Fault struct {
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
func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.Text
	}
	return fmt.Sprintf("%s (line %d, column %d)", f.Text, f.Line, f.Column)
}

// addFault adds a fault at a position in the source. It only counts one beyond the bound.
func (w *walker) addFault(offset int64, in place, format string, args ...any) {
	if w.faults.full() {
		w.faults.Add(nil)
		return
	}
	end := min(max(offset, 0), int64(len(w.src)))
	before := w.src[:end]
	path := in.path
	if path != "" {
		path += ": "
	}
	w.faults.Add(&Fault{
		Text:   path + fmt.Sprintf(format, args...),
		Offset: len(before),
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Lost:   in.name,
	})
}

// wrongValue is a value that does not fit the target.
type wrongValue struct {
	start, end int64
	instead    string
}

// addWrong adds the fault of a value that was just read, and keeps the value from the target.
func (w *walker) addWrong(start int64, in place, format string, args ...any) {
	w.addFault(start, in, format, args...)
	if w.faults.More > 0 {
		return
	}
	instead := "null"
	if in.isObject { // others may refer to the number or the key of the element
		instead = "{}"
		w.faults.List[len(w.faults.List)-1].Empty = true
	}
	w.wrong = append(w.wrong, wrongValue{start, w.dec.InputOffset(), instead})
}

// place is a place in the target.
type place struct {
	path     string
	name     string // of the innermost field
	isObject bool   // an element that is an object
}

// element returns the place of an element of a list.
func (p place) element(i int, typ reflect.Type) place {
	return place{
		path:     fmt.Sprintf("%s[%d]", p.path, i),
		name:     p.name,
		isObject: isObject(typ),
	}
}

// value returns the place of the value of a key of a map.
func (p place) value(key string, typ reflect.Type) place {
	return place{
		path:     fmt.Sprintf("%s[%q]", p.path, structs.Cut(key, structs.MaxQuoted)),
		name:     p.name,
		isObject: isObject(typ),
	}
}

// field returns the place of a field.
func (p place) field(name string) place {
	shown := structs.Cut(name, structs.MaxQuoted)
	if p.path != "" {
		shown = p.path + "." + shown
	}
	return place{path: shown, name: name}
}

func isObject(typ reflect.Type) bool {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return kindName(typ.Kind()) == "an object" && !opaque(typ)
}
