package rpc

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/internal/codec"
)

// manyShapes holds values of every msgpack format.
func manyShapes() map[string]any {
	long := make([]any, 70_000)
	wide := map[string]any{}
	for i := range 40 {
		wide[strings.Repeat("k", i)] = i
	}
	return map[string]any{
		"nil":    nil,
		"bools":  []any{true, false},
		"wide":   wide,
		"long":   long,
		"few":    long[:300],
		"ints":   []any{1, -1, -100, 200, 300, -300, 70_000, -70_000, 1 << 40, -(1 << 40), uint64(1 << 63)},
		"floats": []any{float32(1.5), 2.5},
		"time":   time.Unix(1, 2),
		"texts":  []any{"", "a", strings.Repeat("b", 40), strings.Repeat("c", 300), strings.Repeat("d", 70_000)},
		"bytes":  []any{[]byte("x"), bytes.Repeat([]byte("y"), 300), bytes.Repeat([]byte("z"), 70_000)},
	}
}

func TestMessages_AreFoundOneAfterAnother(t *testing.T) {
	v := manyShapes()
	b, err := codec.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	m := newMessages(bytes.NewReader(append(bytes.Repeat(b, 3), 7)), int64(len(b)))
	var want, got map[string]any
	if err := codec.Decode(b, &want); err != nil {
		t.Fatal(err)
	}
	if err := m.read(nil); err != nil {
		t.Fatal(err)
	}
	if err := m.read(new([]int)); err == nil || m.lost {
		t.Errorf("a map read as numbers got %v, lost %t; want an error that loses nothing", err, m.lost)
	}
	if err := m.read(&got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("the value differs from the one that was sent: %v", err)
	}
	n := 0
	if err := m.read(&n); err != nil || n != 7 {
		t.Errorf("got %d, %v; want 7", n, err)
	}
	if err := m.read(&n); err != io.EOF {
		t.Errorf("at the end: got %v, want io.EOF", err)
	}
}

func TestMessages_RejectInvalidBytes(t *testing.T) {
	for name, b := range map[string]string{
		"too long a text":   "\xdb\xff\xff\xff\xff",
		"too many values":   "\xdd\xff\xff\xff\xff",
		"too wide a map":    "\xdf\xff\xff\xff\xff",
		"nests":             strings.Repeat("\xdd\x00\x00\x00\xff", 100),
		"no value":          "\xc1",
		"cut":               "\xa5abc",
		"cut in its length": "\xdb\x00",
	} {
		m := newMessages(strings.NewReader(b), 100)
		if err := m.read(nil); err == nil || errors.Is(err, io.EOF) || !m.lost {
			t.Errorf("%s: got %v, lost %t; want an error that loses the place", name, err, m.lost)
		}
	}
}

// FuzzMessages: reading ends for any input, and a complete value has the length of its bytes.
func FuzzMessages(f *testing.F) {
	b, err := codec.Encode(manyShapes())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:1000])
	f.Add([]byte("\x81\xa4Text\xdb\xf0\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMessages(bytes.NewReader(b), 1<<16)
		read := 0
		for v, err := m.next(); err == nil; v, err = m.next() {
			if len(v) == 0 || !bytes.Equal(v, b[read:read+len(v)]) {
				t.Fatalf("a value of %d bytes at %d differs from the input", len(v), read)
			}
			read += len(v)
		}
		m = newMessages(bytes.NewReader(b), 1<<16)
		for !m.lost {
			var head struct{ ServiceMethod string }
			_ = m.read(&head)
		}
	})
}
