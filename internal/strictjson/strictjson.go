// Package strictjson decodes JSON from clients and drops no part of it silently.
//
//   - It rejects a field that the target does not know, with its path
//     (`Job.TaskGroups[0].Services: berth does not know this field`). It accepts the field if its value is
//     empty (null, "", 0, false, the zero time, or only such values), because clients of the dialect send
//     every field.
//   - It rejects a value of the wrong type with its path, line and column.
//   - It rejects a second value of a field, and anything after the body.
//
// It reports all faults at once, and decodes the parts without faults. The caller checks whether the values
// make sense.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"berth/internal/suggest"
	"berth/structs"
)

// Ignore reports that a field that the target does not know may be dropped although its value is not empty.
// value is its JSON.
type Ignore func(field string, value json.RawMessage) bool

// Decode reads one JSON value into dst, a pointer. ignore may be nil. Its errors are invalid, and those of a
// body that is not empty are Faults.
func Decode(b []byte, dst any, ignore Ignore) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return structs.Invalidf("the body is empty, expected JSON")
	}
	w := &walker{
		src:    b,
		dec:    json.NewDecoder(bytes.NewReader(b)),
		ignore: ignore,
		faults: &Faults{},
	}
	w.dec.UseNumber()
	err := w.checkBody(reflect.TypeOf(dst).Elem())
	if err == nil && w.faults.More == 0 {
		err = json.Unmarshal(w.withoutFaults(), dst)
		w.faults.Partly = err == nil
	}
	if err != nil {
		w.explain(err)
	}
	if len(w.faults.List) == 0 {
		return nil
	}
	return structs.Invalidf("%w", w.faults)
}

// walker reads the tokens of the source in step with the type of the target.
type walker struct {
	src    []byte
	dec    *json.Decoder
	ignore Ignore
	faults *Faults
	wrong  []wrongValue
}

// checkBody reads the whole source. Its errors are those of the syntax, which end the reading.
func (w *walker) checkBody(typ reflect.Type) error {
	err := w.checkValue(place{}, typ)
	if err != nil {
		return err
	}
	_, err = w.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errTrailing
}

var errTrailing = errors.New("expected the end of the body")

// withoutFaults returns the source with another value for each that does not fit the target.
func (w *walker) withoutFaults() []byte {
	if len(w.wrong) == 0 {
		return w.src
	}
	var rest []byte
	end := int64(0)
	for _, v := range w.wrong {
		rest = append(rest, w.src[end:v.start]...)
		rest = append(rest, v.instead...)
		end = v.end
	}
	return append(rest, w.src[end:]...)
}

// explain adds an error of encoding/json to the faults.
func (w *walker) explain(err error) {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, errTrailing):
		w.addFault(w.dec.InputOffset(), place{}, "%v", err)
	case errors.As(err, &syntax):
		w.addFault(syntax.Offset-1, place{}, "not JSON: %v", err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		w.addFault(int64(len(w.src)), place{}, "the body ends in the middle of a value")
	default: // a type that decodes itself refuses its value
		w.faults.Add(&Fault{Text: err.Error()})
	}
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	bytesType   = reflect.TypeFor[[]byte]()
	rawType     = reflect.TypeFor[json.RawMessage]()
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
func (w *walker) checkValue(in place, typ reflect.Type) error {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	at := w.nextOffset()
	next := byte(0)
	if at < int64(len(w.src)) {
		next = w.src[at]
	}
	want := kindName(typ.Kind())
	found := kindAt(next)
	switch {
	case found == "" || opaque(typ) || typ == bytesType && found == "a string": // "": null fits everything
		return w.checkWhole(in, typ)
	case found != want:
		_, err := w.rawValue()
		if err == nil {
			w.addWrong(at, in, "expected %s, found %s", want, found)
		}
		return err
	}
	tok, err := w.dec.Token()
	if err != nil {
		return err
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '[' {
			return w.checkArray(in, typ)
		}
		return w.checkObject(in, typ)
	case json.Number:
		w.checkNumber(at, in, typ, tok.String())
	}
	return nil
}

// checkWhole reads a value whose form the type does not show, and tries it if the type decodes itself.
func (w *walker) checkWhole(in place, typ reflect.Type) error {
	at := w.nextOffset()
	raw, err := w.rawValue()
	if err != nil || typ.Kind() == reflect.Interface || typ == rawType || string(raw) == "null" {
		return err
	}
	err = json.Unmarshal(raw, reflect.New(typ).Interface())
	if err != nil {
		w.addWrong(at, in, "%v", err)
	}
	return nil
}

// checkNumber checks that a number fits its type, as encoding/json does.
func (w *walker) checkNumber(at int64, in place, typ reflect.Type, text string) {
	var err error
	switch kind := typ.Kind(); {
	case kind >= reflect.Int && kind <= reflect.Int64:
		_, err = strconv.ParseInt(text, 10, typ.Bits())
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		_, err = strconv.ParseUint(text, 10, typ.Bits())
	default:
		_, err = strconv.ParseFloat(text, typ.Bits())
	}
	if err != nil {
		w.addWrong(at, in, "expected %s, found %s",
			numberName(typ), structs.Cut(text, structs.MaxQuoted))
	}
}

// numberName describes the numbers of a type.
func numberName(typ reflect.Type) string {
	switch kind := typ.Kind(); {
	case kind >= reflect.Int && kind <= reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", typ.Bits())
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		return fmt.Sprintf("a whole number of %d bits that is not negative", typ.Bits())
	}
	return fmt.Sprintf("a number of %d bits", typ.Bits())
}

func (w *walker) checkArray(in place, typ reflect.Type) error {
	for i := 0; w.dec.More(); i++ {
		err := w.checkValue(in.element(i, typ.Elem()), typ.Elem())
		if err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *walker) checkObject(in place, typ reflect.Type) error {
	isMap := typ.Kind() == reflect.Map
	seen := map[string]bool{}
	for w.dec.More() {
		at := w.nextOffset()
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}
		name := tok.(string)
		var here place
		var field reflect.Type
		if isMap {
			field = typ.Elem()
			here = in.value(name, field)
		} else {
			name, field = fieldOf(typ, name)
			here = in.field(name)
		}
		if seen[name] {
			w.addFault(at, here, "the field is given twice")
		}
		seen[name] = true
		if field != nil {
			err = w.checkValue(here, field)
		} else {
			err = w.checkUnknown(at, here, typ)
		}
		if err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

// checkUnknown reads the value of a field that the target does not know. It takes the field for the known one
// that the source probably means.
func (w *walker) checkUnknown(at int64, in place, typ reflect.Type) error {
	raw, err := w.rawValue()
	if err != nil {
		return err
	}
	name := in.name
	if isEmpty(raw) ||
		w.ignore != nil && w.ignore(name, raw) {
		return nil
	}
	hint := ""
	in.name = ""
	if !w.faults.full() {
		in.name = suggest.Closest(name, shapeOf(typ).names())
	}
	if in.name != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", in.name)
	}
	w.addFault(at, in, "berth does not know this field%s", hint)
	return nil
}

func (w *walker) rawValue() (raw json.RawMessage, err error) {
	err = w.dec.Decode(&raw)
	return raw, err
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

func (s *shape) names() []string {
	var names []string
	for _, f := range s.fields {
		names = append(names, f.name)
	}
	return names
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

// kindAt returns the kind of the value that begins with a character, "" for null and for no value.
func kindAt(first byte) string {
	switch first {
	case '[':
		return "a list"
	case '{':
		return "an object"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return "a number"
	}
	return ""
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
