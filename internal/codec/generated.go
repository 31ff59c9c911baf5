package codec

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/tinylib/msgp/msgp"
)

// Generated is a pointer to a struct that has a codec of its own, written by codecgen. It writes the very
// bytes that the Handle writes and reads what the Handle reads.
type Generated interface {
	// MsgpackSelf returns the receiver. Methods are promoted by embedding: a struct that has no codec of its
	// own but embeds one that has would be written as that part of it alone. It is found out by this: what it
	// returns is not the pointer that was asked.
	MsgpackSelf() any
	// AppendMsgpack appends the struct; a nil receiver is nil on the wire.
	AppendMsgpack(b []byte) ([]byte, error)
	// DecodeMsgpack reads one value into the receiver, which keeps what the value does not name, and returns
	// the bytes after it.
	DecodeMsgpack(b []byte) (rest []byte, err error)
}

// generated returns the codec of v itself, if it has one.
func generated(v any) (Generated, bool) {
	g, ok := v.(Generated)
	if !ok {
		return nil, false
	}
	if p := reflect.ValueOf(v); p.Kind() != reflect.Pointer || p.IsNil() || g.MsgpackSelf() != v {
		return nil, false
	}
	return g, true
}

// form is how values of a type are written and read.
type form int

const (
	byReflection form = iota
	asStruct          // a struct whose pointer is Generated
	asPointers        // a slice of pointers that are Generated
)

// forms remembers the form of each type that is not a pointer.
var forms sync.Map // of reflect.Type

func formOf(t reflect.Type) form {
	if f, ok := forms.Load(t); ok {
		return f.(form)
	}
	f := byReflection
	switch {
	case t.Kind() == reflect.Struct && isGenerated(t):
		f = asStruct
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Pointer && isGenerated(t.Elem().Elem()):
		f = asPointers
	}
	forms.Store(t, f)
	return f
}

func isGenerated(t reflect.Type) bool {
	_, ok := generated(reflect.New(t).Interface())
	return ok
}

// appendKnown appends v if it is of a form that needs no reflection but at the top.
func appendKnown(b []byte, v any) (out []byte, known bool, err error) {
	if g, ok := generated(v); ok {
		b, err = g.AppendMsgpack(b)
		return b, true, err
	}
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	if k := rv.Kind(); k != reflect.Struct && k != reflect.Slice {
		return b, false, nil
	}
	switch formOf(rv.Type()) {
	case asStruct:
		if !rv.CanAddr() {
			p := reflect.New(rv.Type())
			p.Elem().Set(rv)
			rv = p.Elem()
		}
		b, err = rv.Addr().Interface().(Generated).AppendMsgpack(b)
		return b, true, err
	case asPointers:
		b, err = appendRows(b, rv)
		return b, true, err
	}
	return b, false, nil
}

func appendRows(b []byte, rows reflect.Value) (_ []byte, err error) {
	if rows.IsNil() {
		return msgp.AppendNil(b), nil
	}
	b = msgp.AppendArrayHeader(b, uint32(rows.Len()))
	for i := range rows.Len() {
		if b, err = rows.Index(i).Interface().(Generated).AppendMsgpack(b); err != nil {
			return b, within(place(i), err)
		}
	}
	return b, nil
}

// decodeKnown reads v if it is of a form that needs no reflection but at the top.
func decodeKnown(b []byte, v any) (known bool, err error) {
	if g, ok := generated(v); ok {
		_, err = g.DecodeMsgpack(b)
		return true, err
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() || rv.Elem().Kind() != reflect.Slice || formOf(rv.Elem().Type()) != asPointers {
		return false, nil
	}
	return true, decodeRows(b, rv)
}

// decodeRows is ReadPointers for a slice whose type is known at run time only.
func decodeRows(b []byte, slice reflect.Value) error {
	rows := slice.Elem()
	if !isArray(b) {
		_, err := otherwise(b, slice.Interface())
		return err
	}
	n, b, err := readLength(msgp.ReadArrayHeaderBytes(b))
	if err != nil {
		return err
	}
	switch {
	case n == 0 && rows.IsNil(), n > rows.Cap():
		all := reflect.MakeSlice(rows.Type(), n, n)
		reflect.Copy(all, rows)
		rows.Set(all)
	default:
		rows.SetLen(n)
	}
	row := rows.Type().Elem().Elem()
	for i := range n {
		at := rows.Index(i)
		if msgp.IsNil(b) {
			at.SetZero()
			b = b[1:]
			continue
		}
		if at.IsNil() {
			at.Set(reflect.New(row))
		}
		if b, err = at.Interface().(Generated).DecodeMsgpack(b); err != nil {
			return within(place(i), err)
		}
	}
	return nil
}

// fault is an error with the place in the value at which it came up, as in Claims[2].AccessMode.
type fault struct {
	at  string
	err error
}

func (f *fault) Error() string { return f.at + ": " + f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// within says that an error came up in a part of the value.
func within(part string, err error) error {
	f, ok := err.(*fault)
	if !ok {
		return &fault{part, err}
	}
	if !strings.HasPrefix(f.at, "[") {
		part += "."
	}
	return &fault{part + f.at, f.err}
}

func place(i int) string { return fmt.Sprintf("[%d]", i) }

func placeOf(key string) string { return fmt.Sprintf("[%.64q]", key) }

// EncodeError says which field could not be written; nil stays nil.
func EncodeError(field string, err error) error {
	if err == nil {
		return nil
	}
	return within(field, err)
}
