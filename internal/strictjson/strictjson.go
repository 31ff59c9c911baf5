// Package strictjson decodes JSON from clients and drops no part of it silently.
//
//   - It rejects a field that the target does not know, with its path
//     (`Job.TaskGroups[0].Services: berth does not know this field`). It accepts the field if its value is
//     empty (null, "", 0, false, the zero time, or only such values), because clients of the dialect send
//     every field.
//   - It rejects a value of the wrong type with its path, line and column.
//   - It rejects a second value of a field, and anything after the body.
//
// The caller checks whether the values make sense.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"

	"berth/structs"
)

// Ignore reports that a field that the target does not know may be dropped although its value is not empty.
// value is its JSON.
type Ignore func(field string, value json.RawMessage) bool

// Decode reads one JSON value into dst, a pointer. ignore may be nil. Its errors are invalid.
func Decode(b []byte, dst any, ignore Ignore) error {
	w := &walker{
		src:    b,
		dec:    json.NewDecoder(bytes.NewReader(b)),
		ignore: ignore,
	}
	w.dec.UseNumber()
	if len(bytes.TrimSpace(b)) == 0 {
		return structs.Invalidf("the body is empty, expected JSON")
	}
	err := w.checkValue("", reflect.TypeOf(dst).Elem())
	if err != nil {
		return w.explain(err)
	}
	_, err = w.dec.Token()
	if !errors.Is(err, io.EOF) {
		return w.fault(w.dec.InputOffset(), "",
			"expected the end of the body")
	}
	err = json.Unmarshal(b, dst)
	if err != nil {
		return w.explain(err)
	}
	return nil
}

// walker reads the tokens of the source in step with the type of the target.
type walker struct {
	src    []byte
	dec    *json.Decoder
	ignore Ignore
}

// Fault is a fault at a position of the source. Lines and columns count from 1.
type Fault struct {
	Text   string // with the path of the field before it
	Offset int
	Line   int
	Column int // in bytes
}

// Error returns the text, followed by the position.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s (line %d, column %d)", f.Text, f.Line, f.Column)
}

// fault returns an error at a position in the source.
func (w *walker) fault(offset int64, path, format string, args ...any) error {
	end := min(max(offset, 0), int64(len(w.src)))
	before := w.src[:end]
	if path != "" {
		path += ": "
	}
	return structs.Invalidf("%w", &Fault{
		Text:   path + fmt.Sprintf(format, args...),
		Offset: len(before),
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
	})
}

// explain describes an error of encoding/json in the form of this package's own errors.
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
		return w.fault(typ.Offset, typ.Field,
			"expected %s, found %s", kindName(typ.Type.Kind()), typ.Value)
	case errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.EOF):
		return w.fault(int64(len(w.src)), "",
			"the body ends in the middle of a value")
	}
	return structs.Invalidf("%v", err)
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	bytesType   = reflect.TypeFor[[]byte]()
)

// opaque reports whether the type does not show the form of its JSON. A struct that decodes itself is assumed
// to do so from an object of its exported fields, if it has any (time.Time has none).
func opaque(typ reflect.Type) bool {
	switch typ.Kind() {
	case reflect.Interface:
		return true
	case reflect.Map:
		return false
	case reflect.Struct:
		if shapeOf(typ).exported {
			return false
		}
	}
	return reflect.PointerTo(typ).Implements(unmarshaler)
}

// nextOffset returns the offset of the next token.
func (w *walker) nextOffset() int64 {
	at := min(w.dec.InputOffset(), int64(len(w.src)))
	rest := w.src[at:]
	next := bytes.TrimLeft(rest, " \t\r\n,:")
	return at + int64(len(rest)-len(next))
}

// checkValue reads one value that must fit typ.
func (w *walker) checkValue(path string, typ reflect.Type) error {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if opaque(typ) {
		_, err := w.rawValue()
		return err
	}
	at := w.nextOffset()
	tok, err := w.dec.Token()
	if err != nil || tok == nil { // null fits everything
		return err
	}
	want := kindName(typ.Kind())
	found := kindOfToken(tok)
	base64 := typ == bytesType && found == "a string"
	if found != want && !base64 {
		return w.fault(at, path, "expected %s, found %s", want, found)
	}
	switch tok {
	case json.Delim('['):
		return w.checkArray(path, typ)
	case json.Delim('{'):
		return w.checkObject(path, typ)
	}
	return nil
}

func (w *walker) checkArray(path string, typ reflect.Type) error {
	for i := 0; w.dec.More(); i++ {
		err := w.checkValue(fmt.Sprintf("%s[%d]", path, i), typ.Elem())
		if err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *walker) checkObject(path string, typ reflect.Type) error {
	isMap := typ.Kind() == reflect.Map
	seen := map[string]bool{}
	for w.dec.More() {
		at := w.nextOffset()
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}
		key := tok.(string)
		name := key
		var field reflect.Type
		if isMap {
			field = typ.Elem()
		} else {
			name, field = fieldOf(typ, key)
		}
		here := joinPath(path, name, isMap)
		if seen[name] {
			return w.fault(at, here, "the field is given twice")
		}
		seen[name] = true
		if field != nil {
			err = w.checkValue(here, field)
		} else {
			err = w.checkUnknown(at, here, name)
		}
		if err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

// checkUnknown reads the value of a field that the target does not know.
func (w *walker) checkUnknown(at int64, path, name string) error {
	raw, err := w.rawValue()
	if err != nil {
		return err
	}
	if isEmpty(raw) ||
		w.ignore != nil && w.ignore(name, raw) {
		return nil
	}
	return w.fault(at, path, "berth does not know this field")
}

func (w *walker) rawValue() (raw json.RawMessage, err error) {
	err = w.dec.Decode(&raw)
	return raw, err
}

// joinPath adds a name to a path. key is true for the key of a map.
func joinPath(path, name string, key bool) string {
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
	name := key
	var found reflect.Type
	for _, f := range shapeOf(typ).fields {
		if f.name == key {
			return f.name, f.typ
		}
		if found == nil && strings.EqualFold(f.name, key) {
			name = f.name
			found = f.typ
		}
	}
	return name, found
}

// shape is what a struct shows in JSON.
type shape struct {
	exported bool // has exported fields
	fields   []field
}

// field is a field with its name in JSON.
type field struct {
	name string
	typ  reflect.Type
}

// shapes keeps the shape of each type, as encoding/json does: reflection takes longer than the rest.
var shapes sync.Map

func shapeOf(typ reflect.Type) *shape {
	known, ok := shapes.Load(typ)
	if !ok {
		known, _ = shapes.LoadOrStore(typ, readShape(typ))
	}
	return known.(*shape)
}

func readShape(typ reflect.Type) *shape {
	s := &shape{}
	for _, f := range reflect.VisibleFields(typ) {
		s.exported = s.exported || f.IsExported()
		whole := f.Tag.Get("json")
		tag, _, _ := strings.Cut(whole, ",")
		if f.Anonymous && tag == "" ||
			!f.IsExported() || whole == "-" {
			continue
		}
		s.fields = append(s.fields, field{cmp.Or(tag, f.Name), f.Type})
	}
	return s
}

// zeroTime is the zero time.Time as encoding/json writes it.
const zeroTime = "0001-01-01T00:00:00Z"

// isEmpty reports whether a value means the same as none.
func isEmpty(raw json.RawMessage) bool {
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
			if v != "" && v != zeroTime &&
				!isKey(dec, raw) {
				return false
			}
		case json.Number:
			f, err := v.Float64()
			if err != nil || f != 0 {
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

// kindName returns the JSON value that a Go kind is written as.
func kindName(kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a number"
}
