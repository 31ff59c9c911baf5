package rpc

import (
	"bytes"
	"math"
	stdrpc "net/rpc"
	"reflect"
	"strings"
	"testing"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"berth/internal/codec"
)

// dialects are ways in which a stock client may be set up to write msgpack.
func dialects() map[string]*msgpack.MsgpackHandle {
	arrays := &msgpack.MsgpackHandle{}
	arrays.StructToArray = true
	new := &msgpack.MsgpackHandle{WriteExt: true}
	new.RawToString = true
	return map[string]*msgpack.MsgpackHandle{"berth's": codec.Handle, "old": {}, "new": new, "arrays": arrays}
}

func encodeAs(t *testing.T, h *msgpack.MsgpackHandle, v any) (b []byte) {
	t.Helper()
	if err := msgpack.NewEncoderBytes(&b, h).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHeadsAreThoseOfStockPrograms: what they write is read, and what is written they read.
func TestHeadsAreThoseOfStockPrograms(t *testing.T) {
	for name, h := range dialects() {
		for _, method := range []string{"", "Node.Register", strings.Repeat("m", 31), strings.Repeat("m", 32), strings.Repeat("m", 70_000)} {
			for _, seq := range []uint64{0, 1, 127, 128, 255, 1 << 16, 1 << 32, math.MaxUint64} {
				request, answer := stdrpc.Request{ServiceMethod: method, Seq: seq}, stdrpc.Response{ServiceMethod: method, Seq: seq, Error: "no: " + method}
				var q requestHead
				if err := q.decode(encodeAs(t, h, &request)); err != nil || string(q.method) != method || q.seq != seq {
					t.Fatalf("%s: request %q %d reads as %q %d, %v", name, method, seq, q.method, q.seq, err)
				}
				var a answerHead
				if err := a.decode(encodeAs(t, h, &answer)); err != nil || a.failure != answer.Error || a.seq != seq {
					t.Fatalf("%s: answer %q %d reads as %q %d, %v", name, method, seq, a.failure, a.seq, err)
				}
				var stockQ stdrpc.Request
				if err := msgpack.NewDecoderBytes(appendRequestHead(nil, method, seq), h).Decode(&stockQ); err != nil || !reflect.DeepEqual(stockQ, request) {
					t.Fatalf("%s: reads %+v, %v; want %+v", name, stockQ, err, request)
				}
				var stockA stdrpc.Response
				head := answerHead{method: method, seq: seq, failure: answer.Error}
				if err := msgpack.NewDecoderBytes(head.append(nil), h).Decode(&stockA); err != nil || !reflect.DeepEqual(stockA, answer) {
					t.Fatalf("%s: reads %+v, %v; want %+v", name, stockA, err, answer)
				}
			}
		}
	}
}

func TestHeadsMayHoldMoreAndInAnyOrder(t *testing.T) {
	b := encodeAs(t, codec.Handle, map[string]any{
		"A": []any{1, map[string]int{"x": 1}}, "Seq": int64(7), "Error": "bad", "ServiceMethod": "Test.Echo", "Z": nil,
	})
	var q requestHead
	if err := q.decode(b); err != nil || string(q.method) != "Test.Echo" || q.seq != 7 {
		t.Errorf("%+v, %v", q, err)
	}
	var a answerHead
	if err := a.decode(b); err != nil || a.failure != "bad" || a.seq != 7 {
		t.Errorf("%+v, %v", a, err)
	}
	var n requestHead
	if err := n.decode(encodeAs(t, codec.Handle, map[string]any{"ServiceMethod": nil, "Seq": nil})); err != nil || len(n.method) > 0 {
		t.Errorf("of nothing: %+v, %v", n, err)
	}
	if err := q.decode([]byte{0xa1, 'x'}); err == nil {
		t.Error("a text reads as a head")
	}
}

// FuzzHeads: what is read of a head is what the stock decoder reads of it.
func FuzzHeads(f *testing.F) {
	f.Add(appendRequestHead(nil, "Node.Register", 7))
	f.Add((&answerHead{method: "a", seq: 1 << 40, failure: "no"}).append(nil))
	f.Add([]byte{0x92, 1, 2})
	f.Add([]byte{0x82, 0xa3, 'S', 'e', 'q', 0xff, 0xa1, 'x', 0xc0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMessages(bytes.NewReader(b), 1<<16)
		whole, err := m.next()
		if err != nil {
			return
		}
		var std stdrpc.Request
		var q requestHead
		errStd, err := codec.Decode(whole, &std), q.decode(whole)
		if errStd == nil && (err != nil || string(q.method) != std.ServiceMethod || q.seq != std.Seq) {
			t.Fatalf("%x reads as %q %d, %v; want %+v", whole, q.method, q.seq, err, std)
		}
		var stdA stdrpc.Response
		var a answerHead
		errStd, err = codec.Decode(whole, &stdA), a.decode(whole)
		if errStd == nil && (err != nil || a.failure != stdA.Error || a.seq != stdA.Seq) {
			t.Fatalf("%x reads as %+v, %v; want %+v", whole, a, err, stdA)
		}
	})
}
