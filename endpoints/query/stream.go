package query

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/tinylib/msgp/msgp"

	"berth/internal/codec"
	"berth/rpc"
	"berth/structs"
)

// StreamRows makes an endpoint write the answer of a list row by row to a caller in another process. Neither
// all stubs of the list nor a second copy of them exist at any time. A page is made before it is written.
// StreamRows does not change an endpoint that returns no list.
func StreamRows(endpoint rpc.Endpoint, answer reflect.Type) rpc.Endpoint {
	list := listField(answer)
	if list == "" {
		return endpoint
	}
	endpoint.ServeRemote = func(ctx context.Context, req any) (any, error) {
		q := req.(ReadRequest).Query()
		q.Stream = q.PerPage == 0
		resp, err := endpoint.Serve(ctx, req)
		if err != nil || MetaOf(resp).Rows == nil {
			return resp, err
		}
		return &streamedList{resp, list}, nil
	}
	return endpoint
}

// listField returns the name of the field with the rows of a list, "" for an answer that is no list.
func listField(answer reflect.Type) (name string) {
	for i := range answer.NumField() {
		f := answer.Field(i)
		if f.Anonymous {
			continue
		}
		if name != "" || f.Type.Kind() != reflect.Slice ||
			f.Type.Elem().Kind() != reflect.Pointer {
			return ""
		}
		name = f.Name
	}
	return name
}

// streamedList is the response of a list whose rows are made while they are written.
type streamedList struct {
	resp  any
	field string // of resp, for the rows; it is empty
}

// AppendResponse writes the answer with the rows in their field (rpc.Appender).
func (l *streamedList) AppendResponse(out *rpc.Response) error {
	answer, err := codec.Encode(l.resp)
	if err != nil {
		return err
	}

	rows, rest, err := findValue(answer, l.field)
	if err != nil {
		return fmt.Errorf("the field %s of an answer: %w", l.field, err)
	}

	const array32 = 0xdd
	head := append(out.Bytes(), answer[:rows]...)
	head = append(head, array32, 0, 0, 0, 0)
	count := head[len(head)-4:]
	if err := out.Put(head); err != nil {
		return err
	}

	out.Next() // the head stays in its place
	n := uint32(0)
	err = MetaOf(l.resp).Rows(func(row any) error {
		n++
		b, err := codec.Append(out.Bytes(), row)
		if err != nil {
			return err
		}

		return out.Put(b)
	})
	if err != nil {
		return err
	}

	binary.BigEndian.PutUint32(count, n)
	return out.Put(append(out.Bytes(), answer[rest:]...))
}

// findValue returns where the value of a field begins and ends in an encoded map.
func findValue(b []byte, field string) (from, to int, err error) {
	fields, rest, err := msgp.ReadMapHeaderBytes(b)
	for ; err == nil && fields > 0; fields-- {
		var name, value []byte
		name, value, err = msgp.ReadStringZC(rest)
		if err != nil {
			break
		}

		rest, err = msgp.Skip(value)
		if err == nil && string(name) == field {
			from = len(b) - len(value)
			to = len(b) - len(rest)
			return from, to, nil
		}
	}
	if err == nil {
		err = structs.Internalf("the field is missing")
	}

	return 0, 0, err
}
