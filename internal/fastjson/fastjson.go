// Package fastjson writes the bytes of encoding/json in a third of its time, for answers of ten thousand
// rows. With encoding/json a list of 10,000 volumes over HTTP misses its target in
// docs/performance/servers.md.
//
//   - It works out once for each type how to write it.
//   - It leaves to encoding/json the values that it does not know: marshalers, interfaces, floating point,
//     and structs with tags beyond name and omitempty.
//   - It allocates no memory where encoding/json does not write.
//
// encoding/json and internal/conf read JSON.
package fastjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"sync"
	"time"
)

// Encoder appends values to buffers. The zero value is ready. One goroutine at a time uses it.
type Encoder struct {
	last  reflect.Type // of the value before, and how it is written
	write writer
	keys  []string // of the map that is being written
	err   error
}

// writer appends a value of its type. It leaves the first error in the encoder.
type writer func(b []byte, v reflect.Value, e *Encoder) []byte

// writers has the writers of the types that were appended so far.
var writers sync.Map // reflect.Type -> writer

// Append appends v as json.Marshal writes it. After an error the bytes that it appended are no JSON.
func (e *Encoder) Append(b []byte, v any) ([]byte, error) {
	if v == nil {
		return append(b, "null"...), nil
	}
	rv := reflect.ValueOf(v)
	if t := rv.Type(); t != e.last {
		e.last = t
		e.write = writerOf(t)
	}
	e.err = nil
	b = e.write(b, rv, e)
	return b, e.err
}

// plan has the types whose encoding is being computed. A type that leads back to one of them goes to
// encoding/json, which notices values that contain themselves.
type plan map[reflect.Type]bool

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func writerOf(t reflect.Type) writer {
	w, known := writers.Load(t)
	if !known {
		w, _ = writers.LoadOrStore(t, plan{}.writer(t))
	}
	return w.(writer)
}

// Former is a struct whose MarshalJSON returns the JSON of another value.
type Former interface {
	// JSONForm returns a pointer to that value.
	JSONForm() any
}

// marshals reports whether a type, or a pointer to it, has a method that writes it.
func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(textMarshaler)
}

// writer computes the encoding of a type.
func (p plan) writer(t reflect.Type) writer {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return writeTime
	case t.Kind() == reflect.Struct && t.Implements(reflect.TypeFor[Former]()):
		return writeForm
	case marshals(t) || p[t]:
		return byLibrary
	case t == reflect.TypeFor[map[string]string]():
		return writeStrings
	}

	p[t] = true
	defer delete(p, t)
	switch t.Kind() {
	case reflect.Bool:
		return writeBool
	case reflect.Int, reflect.Int8, reflect.Int16,
		reflect.Int32, reflect.Int64:
		return writeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64:
		return writeUint
	case reflect.String:
		return writeString
	case reflect.Pointer:
		return pointerWriter(p.writer(t.Elem()))
	case reflect.Slice:
		return p.sliceWriter(t)
	case reflect.Map:
		return p.mapWriter(t)
	case reflect.Struct:
		return p.structWriter(t)
	}

	return byLibrary
}

// writeForm writes the value that stands for a Former.
func writeForm(b []byte, v reflect.Value, e *Encoder) []byte {
	if v.CanAddr() {
		v = v.Addr() // Interface then copies nothing
	}
	form := reflect.ValueOf(v.Interface().(Former).JSONForm())
	return writerOf(form.Type())(b, form, e)
}

// byLibrary has encoding/json write the value as it would in place: a method of the pointer writes a value
// that has an address.
func byLibrary(b []byte, v reflect.Value, e *Encoder) []byte {
	if v.CanAddr() {
		v = v.Addr()
	}
	text, err := json.Marshal(v.Interface())
	if err != nil && e.err == nil {
		e.err = err
	}
	return append(b, text...)
}
