// Package fastjson writes what encoding/json writes, byte for byte, in a fraction of its time: for answers of
// ten thousand rows.
//
// Its laws:
//
//   - How a type is written is worked out once, from the type alone, and kept.
//   - What it does not know to write as encoding/json would (marshalers, interfaces, floating point, struct
//     tags beyond name and omitempty), encoding/json writes; so a value is never written otherwise.
//   - It makes no garbage but what that does.
//
// Reading JSON is left to encoding/json and internal/strictjson.
package fastjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"sync"
	"time"
)

// Encoder appends values to buffers. The zero value is ready; it is for one goroutine.
type Encoder struct {
	last  reflect.Type // of the value before, and how it is written
	write writer
	keys  []string // of the map that is being written
	err   error
}

// writer appends a value of the one type that it is for. The first error is left in the encoder.
type writer func(b []byte, v reflect.Value, e *Encoder) []byte

// writers are those of the types that were appended so far.
var writers sync.Map // reflect.Type -> writer

// Append appends v as json.Marshal would write it. After an error what was appended is no JSON.
func (e *Encoder) Append(b []byte, v any) ([]byte, error) {
	if v == nil {
		return append(b, "null"...), nil
	}
	rv := reflect.ValueOf(v)
	if t := rv.Type(); t != e.last {
		w, known := writers.Load(t)
		if !known {
			w, _ = writers.LoadOrStore(t, plan{}.writer(t))
		}
		e.last, e.write = t, w.(writer)
	}
	e.err = nil
	b = e.write(b, rv, e)
	return b, e.err
}

// plan holds the types that are being worked out. What leads back to one of them is left to encoding/json,
// which notices values that hold themselves.
type plan map[reflect.Type]bool

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// marshals reports whether a type, or a pointer to it, says itself how it is written.
func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(textMarshaler)
}

// writer works out how a type is written.
func (p plan) writer(t reflect.Type) writer {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return writeTime
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
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return writeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return writeUint
	case reflect.String:
		return writeString
	case reflect.Pointer:
		return writePointer(p.writer(t.Elem()))
	case reflect.Slice:
		return p.slice(t)
	case reflect.Map:
		return p.mapped(t)
	case reflect.Struct:
		return p.structure(t)
	}
	return byLibrary
}

// byLibrary has encoding/json write the value, as it would in place: a value that has an address may be
// written by a method of its pointer.
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
