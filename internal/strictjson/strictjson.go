// Package strictjson decodes JSON from clients so that nothing they said is dropped in silence.
//
// Its laws:
//
//   - A field that the target does not know and that says something is refused, with its path
//     (`Job.TaskGroups[0].Networks: berth does not know this field`). One that says nothing (null, "", 0,
//     false, the zero time, or only such inside) is accepted: clients of the dialect send every field.
//   - A value of the wrong type is refused with its path, line and column.
//   - A field given twice, and anything after the value, is refused.
//
// Whether the values make sense is left to the caller.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"berth/structs"
)

// Ignore reports that a field that the target does not know may be dropped although it says something. value
// is its JSON.
type Ignore func(field string, value json.RawMessage) bool

// Decode reads one JSON value into dst, a pointer. ignore may be nil. Its errors are invalid.
func Decode(b []byte, dst any, ignore Ignore) error {
	w := &walker{src: b, dec: json.NewDecoder(bytes.NewReader(b)), ignore: ignore}
	w.dec.UseNumber()
	if len(bytes.TrimSpace(b)) == 0 {
		return structs.Errorf(structs.KindInvalid, "the body is empty, expected JSON")
	}
	if err := w.value("", reflect.TypeOf(dst).Elem()); err != nil {
		return w.explain(err)
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return w.fault(w.dec.InputOffset(), "", "expected the end of the body")
	}
	if err := json.Unmarshal(b, dst); err != nil {
		return w.explain(err)
	}
	return nil
}

// walker goes through the tokens of the source beside the target's type.
type walker struct {
	src    []byte
	dec    *json.Decoder
	ignore Ignore
}

// fault is an error at a place in the source.
func (w *walker) fault(offset int64, path, format string, args ...any) error {
	line, col := w.position(offset)
	if path != "" {
		path += ": "
	}
	return structs.Errorf(structs.KindInvalid, "%s%s (line %d, column %d)", path, fmt.Sprintf(format, args...), line, col)
}

// position counts lines and columns from 1.
func (w *walker) position(offset int64) (line, col int) {
	before := w.src[:min(max(offset, 0), int64(len(w.src)))]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
}

// explain says in the package's words what encoding/json found.
func (w *walker) explain(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	var ours *structs.Error
	switch {
	case errors.As(err, &ours):
		return err
	case errors.As(err, &syntax):
		return w.fault(syntax.Offset-1, "", "not JSON: %v", err)
	case errors.As(err, &typ):
		return w.fault(typ.Offset, typ.Field, "expected %s, found %s", kindNames[typ.Type.Kind()], typ.Value)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return w.fault(int64(len(w.src)), "", "the body ends in the middle of a value")
	}
	return structs.Errorf(structs.KindInvalid, "%v", err)
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	bytesType   = reflect.TypeFor[[]byte]()
)

// opaque reports whether what a type's JSON looks like cannot be seen from the type. A struct that decodes
// itself is taken to do so from an object of its exported fields, if it has any (time.Time has none).
func opaque(typ reflect.Type) bool {
	switch typ.Kind() {
	case reflect.Interface:
		return true
	case reflect.Map:
		return false
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(typ) {
			if f.IsExported() {
				return false
			}
		}
	}
	return reflect.PointerTo(typ).Implements(unmarshaler)
}

// start is where the next token begins.
func (w *walker) start() int64 {
	at := w.dec.InputOffset()
	rest := w.src[min(at, int64(len(w.src))):]
	return at + int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:")))
}

// value reads one value that is to fit typ.
func (w *walker) value(path string, typ reflect.Type) error {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if opaque(typ) {
		_, err := w.raw()
		return err
	}
	at := w.start()
	tok, err := w.dec.Token()
	if err != nil || tok == nil { // null fits everything
		return err
	}
	if found := kindOfToken(tok); found != kindNames[typ.Kind()] && !(typ == bytesType && found == "a string") {
		return w.fault(at, path, "expected %s, found %s", kindNames[typ.Kind()], found)
	}
	switch tok {
	case json.Delim('['):
		return w.array(path, typ)
	case json.Delim('{'):
		return w.object(path, typ)
	}
	return nil
}

func (w *walker) array(path string, typ reflect.Type) error {
	for i := 0; w.dec.More(); i++ {
		if err := w.value(fmt.Sprintf("%s[%d]", path, i), typ.Elem()); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *walker) object(path string, typ reflect.Type) error {
	seen := map[string]bool{}
	for w.dec.More() {
		at := w.start()
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}
		key := tok.(string)
		name, field := key, reflect.Type(nil)
		if typ.Kind() == reflect.Map {
			field = typ.Elem()
		} else {
			name, field = fieldOf(typ, key)
		}
		here := join(path, name, typ.Kind() == reflect.Map)
		if seen[name] {
			return w.fault(at, here, "the field is given twice")
		}
		seen[name] = true
		if field != nil {
			err = w.value(here, field)
		} else {
			err = w.unknown(at, here, name)
		}
		if err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *walker) unknown(at int64, path, name string) error {
	raw, err := w.raw()
	if err != nil {
		return err
	}
	if saysNothing(raw) || w.ignore != nil && w.ignore(name, raw) {
		return nil
	}
	return w.fault(at, path, "berth does not know this field")
}

func (w *walker) raw() (raw json.RawMessage, err error) {
	err = w.dec.Decode(&raw)
	return raw, err
}

func join(path, name string, key bool) string {
	name = structs.Cut(name, structs.MaxQuoted)
	switch {
	case key:
		return fmt.Sprintf("%s[%q]", path, name)
	case path == "":
		return name
	}
	return path + "." + name
}

// fieldOf finds the field that encoding/json would fill for a key: by its exact name, then by any case.
// Without one the type is nil.
func fieldOf(typ reflect.Type, key string) (string, reflect.Type) {
	name, found := key, reflect.Type(nil)
	for _, f := range reflect.VisibleFields(typ) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" || !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		if tag == "" {
			tag = f.Name
		}
		if tag == key {
			return tag, f.Type
		}
		if found == nil && strings.EqualFold(tag, key) {
			name, found = tag, f.Type
		}
	}
	return name, found
}

// zeroTime is how encoding/json writes a time.Time that was never set.
const zeroTime = "0001-01-01T00:00:00Z"

// saysNothing reports whether a value could as well have been left out.
func saysNothing(raw json.RawMessage) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		tok, err := dec.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		switch v := tok.(type) {
		case bool:
			if v {
				return false
			}
		case string:
			if v == "" || v == zeroTime {
				continue
			}
			if !isKey(dec, raw) {
				return false
			}
		case json.Number:
			if f, err := v.Float64(); err != nil || f != 0 {
				return false
			}
		}
	}
}

// isKey reports whether the string just read is an object's key: a colon follows.
func isKey(dec *json.Decoder, raw []byte) bool {
	rest := bytes.TrimLeft(raw[dec.InputOffset():], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

func kindOfToken(tok json.Token) string {
	switch tok.(type) {
	case json.Delim:
		if tok == json.Delim('[') {
			return "a list"
		}
		return "an object"
	case string:
		return "a string"
	case bool:
		return "true or false"
	}
	return "a number"
}

// kindNames are the JSON values that Go kinds are written as.
var kindNames = map[reflect.Kind]string{
	reflect.Bool: "true or false", reflect.String: "a string",
	reflect.Int: "a number", reflect.Int8: "a number", reflect.Int16: "a number", reflect.Int32: "a number",
	reflect.Int64: "a number", reflect.Uint: "a number", reflect.Uint8: "a number", reflect.Uint16: "a number",
	reflect.Uint32: "a number", reflect.Uint64: "a number", reflect.Float32: "a number", reflect.Float64: "a number",
	reflect.Slice: "a list", reflect.Array: "a list", reflect.Map: "an object", reflect.Struct: "an object",
}
