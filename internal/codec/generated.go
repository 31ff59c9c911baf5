package codec

import (
	"reflect"

	"berth/internal/codec/wire"
)

// Generated is a pointer to a struct with a codec that codecgen wrote. It writes the same bytes as the Handle
// and reads the same values.
type Generated interface {
	// MsgpackSelf returns the receiver. A struct without a codec inherits the methods of an embedded struct,
	// which encode only that part. The result shows this: it is not the pointer of the call.
	MsgpackSelf() any
	// AppendMsgpack appends the struct. It appends nil for a nil receiver.
	AppendMsgpack(b []byte) ([]byte, error)
	// DecodeMsgpack reads one value into the receiver, which keeps the fields that the value does not name,
	// and returns the bytes after the value.
	DecodeMsgpack(b []byte) (rest []byte, err error)
}

// generated returns the codec of v itself, if it has one.
func generated(v any) (Generated, bool) {
	g, ok := v.(Generated)
	if !ok {
		return nil, false
	}
	p := reflect.ValueOf(v)
	return g, p.Kind() == reflect.Pointer &&
		!p.IsNil() && g.MsgpackSelf() == v
}

// appendRows appends rows as Append does.
func appendRows[T any](b []byte, rows []*T) ([]byte, error) {
	_, ok := generated(new(T))
	if !ok {
		return Append(b, rows)
	}
	return wire.AppendPointers(b, rows, func(r *T, b []byte) ([]byte, error) {
		return any(r).(Generated).AppendMsgpack(b)
	})
}

// DecodeRows reads rows as Decode does, and uses the codec of T if it has one.
func DecodeRows[T any](b []byte, rows *[]*T) error {
	_, ok := generated(new(T))
	if !ok {
		return Decode(b, rows)
	}
	_, err := wire.ReadPointers(b, rows, func(r *T, b []byte) ([]byte, error) {
		return any(r).(Generated).DecodeMsgpack(b)
	})
	return failure("decoding", rows, err)
}
