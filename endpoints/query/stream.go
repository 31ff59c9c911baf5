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

// StreamRows has a list that is answered over a wire written row by row, as the rows are made: neither all of
// its stubs nor a second copy of them is there at any time. Of a page the stubs are made first.
func StreamRows[Resp any](endpoint rpc.Endpoint) rpc.Endpoint {
	list := listOf(reflect.TypeFor[Resp]())
	if list == "" {
		return endpoint
	}
	endpoint.Wire = func(ctx context.Context, req any) (any, error) {
		q := req.(interface{ Query() *structs.QueryOptions }).Query()
		q.Stream = q.PerPage == 0
		resp, err := endpoint.Serve(ctx, req)
		if err != nil || MetaOf(resp).Rows == nil {
			return resp, err
		}
		return &rowByRow{resp, list}, nil
	}
	return endpoint
}

// listOf is the name of the list that an answer is, "" if it is something else.
func listOf(answer reflect.Type) (name string) {
	for i := range answer.NumField() {
		f := answer.Field(i)
		if f.Anonymous {
			continue
		}
		if name != "" || f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() != reflect.Pointer {
			return ""
		}
		name = f.Name
	}
	return name
}

// rowByRow is the answer of a list whose rows are yet to be made.
type rowByRow struct {
	resp any
	list string // the field of resp that the rows belong in
}

// AppendAnswer writes the list and then the other fields (rpc.Appender).
func (r *rowByRow) AppendAnswer(out *rpc.Answer) error {
	rest, err := codec.Encode(r.resp)
	if err != nil {
		return err
	}
	fields, rest, err := msgp.ReadMapHeaderBytes(rest)
	if err != nil {
		return fmt.Errorf("an answer is no map: %w", err)
	}
	const array32 = 0xdd
	b := msgp.AppendString(msgp.AppendMapHeader(out.Bytes(), fields), r.list)
	b = append(b, array32, 0, 0, 0, 0)
	if err := out.Put(b); err != nil {
		return err
	}
	out.Next()
	rows := uint32(0)
	if err := MetaOf(r.resp).Rows(func(row any) error {
		rows++
		b, err := codec.Append(out.Bytes(), row)
		if err != nil {
			return err
		}
		return out.Put(b)
	}); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(b[len(b)-4:], rows) // known only now
	for range fields {
		name, value, err := msgp.ReadStringZC(rest)
		if err != nil {
			return err
		}
		after, err := msgp.Skip(value)
		if err != nil {
			return err
		}
		if string(name) != r.list {
			if err := out.Put(append(out.Bytes(), rest[:len(rest)-len(after)]...)); err != nil {
				return err
			}
		}
		rest = after
	}
	return nil
}
