package conf

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

	"berth/internal/spelling"
	"berth/structs"
)

// Ignore reports that a field that the target does not know may be dropped although its value is not empty.
// value is its JSON. The remedy of a field that is not dropped may be empty.
type Ignore func(field string, value json.RawMessage) (drop bool, remedy string)

// DecodeJSON reads one JSON value into dst, a pointer. ignore may be nil. Its errors are invalid, and
// JSONFaults unless the body is empty.
func DecodeJSON(b []byte, dst any, ignore Ignore) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return structs.Invalidf("the body is empty, expected JSON")
	}

	w := &walker{
		scanner: scanner{src: b},
		ignore:  ignore,
		faults:  &JSONFaults{},
	}

	err := w.checkBody(reflect.TypeOf(dst).Elem())
	if err == nil && w.faults.More == 0 {
		// The decoder gets what fits, so the target has all parts without faults.
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

// walker reads the source in step with the type of the target.
type walker struct {
	scanner
	ignore Ignore
	faults *JSONFaults
	wrong  []wrongValue
}

// checkBody reads the whole source. Its error, which ends the reading, is errNotJSON.
func (w *walker) checkBody(typ reflect.Type) error {
	err := w.checkValue(&place{typ: typ})
	// Spaces may follow the value.
	w.next()
	if err == nil && w.at < len(w.src) {
		return errNotJSON
	}
	return err
}

// withoutFaults returns the source with another value for each that does not fit the target.
func (w *walker) withoutFaults() []byte {
	if len(w.wrong) == 0 {
		return w.src
	}

	var rest []byte
	end := 0
	for _, v := range w.wrong {
		rest = append(rest, w.src[end:v.start]...)
		rest = append(rest, v.instead...)
		end = v.end
	}

	return append(rest, w.src[end:]...)
}

// explain adds the error that ended the reading or the decoding to the faults.
func (w *walker) explain(err error) {
	whole := &place{}
	notJSON := json.NewDecoder(bytes.NewReader(w.src)).Decode(&json.RawMessage{})
	var syntax *json.SyntaxError
	switch {
	case errors.As(notJSON, &syntax):
		w.addFault(int(syntax.Offset)-1, whole, "not JSON: %v", syntax)
	case notJSON != nil:
		w.addFault(len(w.src), whole, "the body ends in the middle of a value")
	case errors.Is(err, errNotJSON):
		w.addFault(w.at, whole, "expected the end of the body")
	default: // a type that decodes itself rejects its value
		w.faults.Add(&JSONFault{Text: err.Error()})
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

// checkValue reads one value that must fit the type of the place.
func (w *walker) checkValue(in *place) error {
	for in.typ.Kind() == reflect.Pointer {
		in.typ = in.typ.Elem()
	}

	want := kindName(in.typ.Kind())
	// The first character tells the kind, before the value is read.
	found := kindAt(w.next())
	start := w.at
	switch {
	// "": null fits everything
	case found == "" || opaque(in.typ) || in.typ == bytesType && found == "a string":
		return w.checkWhole(in)
	case found != want:
		_, err := w.value()
		if err == nil {
			w.addWrong(start, in, "expected %s, found %s", want, found)
		}
		return err

	case found == "a list":
		return w.checkArray(in)
	case found == "an object":
		return w.checkObject(in)
	}

	text, err := w.value()
	if err == nil && found == "a number" {
		w.checkNumber(start, in, string(text))
	}

	return err
}

// checkWhole reads a value whose form the type does not show, and tries it if the type decodes itself.
func (w *walker) checkWhole(in *place) error {
	start := w.at
	raw, err := w.value()
	if err != nil || in.typ.Kind() == reflect.Interface || in.typ == rawType || string(raw) == "null" {
		return err
	}

	err = json.Unmarshal(raw, reflect.New(in.typ).Interface())
	if err != nil {
		w.addWrong(start, in, "%v", err)
	}

	return nil
}

// checkNumber checks that a number fits its type, as encoding/json does.
func (w *walker) checkNumber(start int, in *place, text string) {
	var err error
	switch kind := in.typ.Kind(); {
	case kind >= reflect.Int && kind <= reflect.Int64:
		_, err = strconv.ParseInt(text, 10, in.typ.Bits())
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		_, err = strconv.ParseUint(text, 10, in.typ.Bits())
	default:
		_, err = strconv.ParseFloat(text, in.typ.Bits())
	}
	if err != nil {
		w.addWrong(start, in, "expected %s, found %s",
			numberName(in.typ), structs.Cut(text, structs.MaxQuoted))
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

func (w *walker) checkArray(in *place) error {
	w.at++
	element := place{in: in, step: toElement}
	for ; ; element.index++ {
		more, err := w.more(element.index == 0, ']')
		if !more {
			return err
		}
		element.typ = in.typ.Elem()
		err = w.checkValue(&element)
		if err != nil {
			return err
		}
	}
}

func (w *walker) checkObject(in *place) error {
	w.at++
	seen := map[string]bool{}
	var here place
	for {
		more, err := w.more(len(seen) == 0, '}')
		if !more {
			return err
		}

		w.next()
		start := w.at
		key, err := w.key()
		if err != nil {
			return err
		}

		// The target has the names, so a key of another case is the same field.
		here = in.child(key)
		// encoding/json would take the last one, and say nothing of the first.
		if seen[here.name] {
			w.addFault(start, &here, "the field is given twice")
		}

		seen[here.name] = true
		if here.typ != nil {
			err = w.checkValue(&here)
		} else {
			err = w.checkUnknown(start, &here)
		}
		if err != nil {
			return err
		}
	}
}

// checkUnknown reads the value of a field that the target does not know. It takes the field for the known one
// that the source probably means.
func (w *walker) checkUnknown(start int, in *place) error {
	raw, err := w.value()
	if err != nil {
		return err
	}

	name := in.name
	// Clients of the dialect send each of their fields, also fields that ask for nothing.
	if isEmpty(raw) {
		return nil
	}

	remedy := ""
	if w.ignore != nil {
		drop := false
		drop, remedy = w.ignore(name, raw)
		if drop {
			return nil
		}
	}

	if w.faults.full() {
		w.faults.Add(nil)
		return nil
	}

	if remedy != "" {
		w.addFault(start, in, "berth does not support this field: %s", remedy)
		w.faults.List[len(w.faults.List)-1].Lost = ""
		return nil
	}

	hint := ""
	meant := spelling.Closest(name, shapeOf(in.in.typ).names())
	if meant != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", meant)
	}

	w.addFault(start, in, "berth does not know this field%s", hint)
	w.faults.List[len(w.faults.List)-1].Lost = meant
	return nil
}

// fieldOf finds the field that encoding/json would fill for a key: by its exact name, then by any case.
// Without one the type is nil.
func fieldOf(typ reflect.Type, key []byte) (string, reflect.Type) {
	fields := shapeOf(typ).fields
	for _, f := range fields {
		if f.name == string(key) {
			return f.name, f.typ
		}
	}

	name := string(key)
	for _, f := range fields {
		if strings.EqualFold(f.name, name) {
			return f.name, f.typ
		}
	}

	return name, nil
}

// shape is what a struct shows in JSON.
type shape struct {
	exported bool // has exported fields
	fields   []jsonField
}

// jsonField is a field with its name in JSON.
type jsonField struct {
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

// readShape reads the fields of a struct and of its embedded structs, as encoding/json finds them.
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
		s.fields = append(s.fields, jsonField{cmp.Or(tag, f.Name), f.Type})
	}

	return s
}

// zeroTime is the zero time.Time as encoding/json writes it.
const zeroTime = "0001-01-01T00:00:00Z"

// isEmpty reports whether a value means the same as none.
func isEmpty(raw json.RawMessage) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	// A float could round a small number to 0.
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
