package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/tinylib/msgp/msgp"

	"berth/internal/codec"
	"berth/structs"
	"berth/structs/cluster"
	"berth/tools/codecgen"
)

// byHandle encodes by reflection.
func byHandle(t testing.TB, v any) (b []byte) {
	t.Helper()
	if err := msgpack.NewEncoderBytes(&b, codec.Handle).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b
}

func fromHandle(b []byte, v any) error {
	return msgpack.NewDecoderBytes(b, codec.Handle).Decode(v)
}

// newOf returns a new value of the type of v.
func newOf(v any) any { return reflect.New(reflect.TypeOf(v).Elem()).Interface() }

// filler makes random values of any type.
type filler struct {
	*rand.Rand
	empty float64 // how likely a value is to be nil, empty or zero
}

func newFiller(seed uint64) *filler {
	r := rand.New(rand.NewPCG(seed, 0))
	return &filler{r, []float64{0, 0.1, 0.5, 0.9}[r.IntN(4)]}
}

func (f *filler) fillValue(v any) any {
	f.fill(reflect.ValueOf(v).Elem(), 0)
	return v
}

func (f *filler) fill(v reflect.Value, depth int) {
	if f.Float64() < f.empty {
		if k := v.Kind(); (k == reflect.Slice || k == reflect.Map) && f.IntN(2) == 0 {
			f.fillElements(v, 0, depth)
		}
		return
	}
	if t, ok := v.Addr().Interface().(*time.Time); ok {
		*t = f.time()
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(f.text())
	case reflect.Float64:
		v.SetFloat(f.NormFloat64() * 1e6)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.number()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.number())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Slice, reflect.Map:
		f.fillElements(v, f.size(depth), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(f.any(depth)))
	}
}

// fillElements fills a slice or map with n elements.
func (f *filler) fillElements(v reflect.Value, n, depth int) {
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i), depth+1)
		}
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		e := reflect.New(v.Type().Elem()).Elem()
		f.fill(e, depth+1)
		v.SetMapIndex(reflect.ValueOf(f.text()).Convert(v.Type().Key()), e)
	}
}

// size returns a number of elements. It is mostly small, less in the depth, and seldom needs a longer header.
func (f *filler) size(depth int) int {
	if depth < 3 && f.IntN(40) == 0 {
		return 16 + f.IntN(60)
	}
	return f.IntN(max(2, 5-depth))
}

// number returns a number near one of the bounds at which the encoding changes.
func (f *filler) number() uint64 {
	return uint64(1)<<f.IntN(64) + uint64(f.IntN(5)) - 2
}

func (f *filler) text() string {
	words := []string{"", "ready", "default", "größer ☃", "\x00\xff", "a3c1f0de-0f5c-4c3e-9d1b-6a1f5e8c9b7a"}
	s := words[f.IntN(len(words))]
	if f.IntN(200) == 0 {
		return string(bytes.Repeat([]byte(s+"x"), []int{16, 100, 300, 70000}[f.IntN(4)*f.IntN(2)]))
	}
	return s + fmt.Sprint(f.IntN(100))
}

func (f *filler) time() time.Time {
	sec := []int64{0, 1, -1, 1_760_000_000, 1 << 34, 1<<34 - 1, -62135596800, -62135596801}[f.IntN(8)]
	nsec := []int64{0, 1, 999_999_999}[f.IntN(3)]
	zone := []*time.Location{time.UTC, time.FixedZone("x", 3600)}[f.IntN(2)]
	return time.Unix(sec, nsec).In(zone)
}

func (f *filler) any(depth int) any {
	if depth > 6 {
		return "deep"
	}
	switch f.IntN(12) {
	case 0:
		return f.text()
	case 1:
		return int64(f.number())
	case 2:
		return f.number()
	case 3:
		return f.NormFloat64()
	case 4:
		return f.IntN(2) == 0
	case 5:
		return []any{f.any(depth + 1), nil, f.any(depth + 1)}
	case 6:
		return map[string]any{f.text(): f.any(depth + 1), f.text(): nil}
	case 7:
		return []any(nil)
	case 8:
		return []string{f.text()}
	case 9:
		return float32(1.5)
	case 10:
		return int(f.number())
	default:
		return f.time()
	}
}

const rounds = 12

// forEachStruct calls do with random values of every struct, whether it has a codec or goes by reflection.
func forEachStruct(t *testing.T, do func(t *testing.T, seed uint64, v any)) {
	for i, empty := range all {
		t.Run(reflect.TypeOf(empty).Elem().Name(), func(t *testing.T) {
			for round := range uint64(rounds) {
				seed := uint64(i)<<32 | round
				do(t, seed, newFiller(seed).fillValue(newOf(empty)))
			}
		})
	}
}

func TestEncode_WritesTheBytesOfTheHandle(t *testing.T) {
	forEachStruct(t, func(t *testing.T, seed uint64, v any) {
		want := byHandle(t, v)
		forms := []any{v, reflect.ValueOf(v).Elem().Interface()}
		for _, form := range forms {
			got, err := codec.Append([]byte("before"), form)
			if err != nil || string(got) != "before"+string(want) {
				t.Fatalf("seed %d: %T: %v\n got %x\nwant before and %x", seed, form, err, got, want)
			}
		}
		got := newOf(v)
		wanted := newOf(v)
		if err := fromHandle(want, wanted); err != nil {
			t.Fatal(err)
		}
		if err := codec.Decode(want, got); err != nil || !reflect.DeepEqual(got, wanted) {
			t.Fatalf("seed %d: %v\n got %+v\nwant %+v", seed, err, got, wanted)
		}
	})
}

func TestEncodeRows_WritesTheBytesOfTheHandle(t *testing.T) {
	testRows[structs.CSIClaim](t)
	testRows[structs.Node](t)
	testRows[cluster.Namespace](t) // by reflection
	testRows[promoted](t)
}

func testRows[T any](t *testing.T) {
	for seed := range uint64(4 * rounds) {
		var rows []*T
		for n := range seed % 4 {
			rows = append(rows, newFiller(seed+n).fillValue(new(T)).(*T), nil)
		}
		want := byHandle(t, rows)
		if got, err := codec.EncodeRows(rows); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %T: %v\n got %x\nwant %x", seed, rows, err, got, want)
		}
		var back, wanted []*T
		if err := errors.Join(codec.DecodeRows(want, &back), fromHandle(want, &wanted)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, wanted) {
			t.Fatalf("seed %d:\n got %+v\nwant %+v", seed, back, wanted)
		}
	}
}

// checkSame compares the results of both decoders for the same bytes and equal targets.
func checkSame(t *testing.T, b []byte, target func() any) {
	t.Helper()
	got, want := target(), target()
	errWant := fromHandle(b, want)
	errGot := codec.Decode(b, got)
	if errGot != nil && strings.Contains(errGot.Error(), "for decoding bytes") {
		return // the Handle reads an empty map as bytes in a field, and rejects it by itself, as we ask it
	}
	if (errGot == nil) != (errWant == nil) {
		t.Fatalf("%T from %x:\n got error %v\nwant %v", got, b, errGot, errWant)
	}
	if errWant == nil && !reflect.DeepEqual(got, want) && !bytes.Equal(byHandle(t, got), byHandle(t, want)) {
		t.Fatalf("%T from %x:\n got %+v\nwant %+v", got, b, got, want)
	}
}

func TestDecode_IntoAValueThatIsNotEmpty(t *testing.T) {
	forEachStruct(t, func(t *testing.T, seed uint64, v any) {
		before := byHandle(t, newFiller(seed+1e9).fillValue(newOf(v)))
		checkSame(t, byHandle(t, v), func() any {
			target := newOf(v)
			if err := fromHandle(before, target); err != nil {
				t.Fatal(err)
			}
			return target
		})
	})
}

// TestDecode_ReadsChangedBytesAsTheHandleDoes changes one thing in the bytes of the Handle: both decoders
// read the same, or both fail.
func TestDecode_ReadsChangedBytesAsTheHandleDoes(t *testing.T) {
	forEachStruct(t, func(t *testing.T, seed uint64, v any) {
		f := newFiller(seed)
		for range 4 { // FuzzBothReadTheSame has as many as one wants
			n, rest := parseNode(byHandle(t, v))
			if len(rest) > 0 {
				t.Fatalf("%d bytes are left after the value, want none", len(rest))
			}
			n.change(f)
			checkSame(t, n.append(nil), func() any { return newOf(v) })
		}
	})
}

// TestMapsOfStructs_NameAllFields avoids a fault of the Handle: in a map of structs it leaves the values of
// the entry before in the fields that an entry does not name.
func TestMapsOfStructs_NameAllFields(t *testing.T) {
	for _, v := range all {
		typ := reflect.TypeOf(v).Elem()
		for _, f := range reflect.VisibleFields(typ) {
			if f.Type.Kind() != reflect.Map || f.Type.Elem().Kind() != reflect.Struct {
				continue
			}
			empty := byHandle(t, reflect.New(f.Type.Elem()).Interface())
			if n, _ := parseNode(empty); len(n.of) != 2*f.Type.Elem().NumField() {
				t.Errorf("%s.%s: an entry has %d fields, but %d are written", typ, f.Name, f.Type.Elem().NumField(),
					len(n.of)/2)
			}
			if slices.Contains(codecgen.Hot, typ.Name()) {
				t.Errorf("%s.%s: a struct with a codec has a map of structs", typ, f.Name)
			}
		}
	}
}

func TestDecode_RejectsBytesThatAreCutShort(t *testing.T) {
	forEachStruct(t, func(t *testing.T, seed uint64, v any) {
		b := byHandle(t, v)
		cut := b[:rand.New(rand.NewPCG(seed, 1)).IntN(len(b))]
		if err := codec.Decode(cut, newOf(v)); err == nil {
			t.Fatalf("seed %d: Decode accepts %x, which is incomplete", seed, cut)
		}
	})
}

// node is one msgpack value as a tree.
type node struct {
	raw   []byte // of a value without elements
	isMap bool
	of    []*node // elements; keys and values alternate
}

// parseNode reads the output of the Handle.
func parseNode(b []byte) (n *node, rest []byte) {
	head, count := 1, -1
	n = &node{}
	switch lead := b[0]; {
	case lead&0xf0 == 0x80:
		n.isMap, count = true, 2*int(lead&0xf)
	case lead&0xf0 == 0x90:
		count = int(lead & 0xf)
	case lead == 0xdc:
		head, count = 3, int(b[1])<<8|int(b[2])
	case lead == 0xde:
		n.isMap = true
		head, count = 3, 2*(int(b[1])<<8|int(b[2]))
	}
	if count < 0 {
		rest, err := msgp.Skip(b)
		if err != nil {
			panic(err)
		}
		n.raw = b[:len(b)-len(rest)]
		return n, rest
	}
	n.of, rest = []*node{}, b[head:]
	for range count {
		var e *node
		e, rest = parseNode(rest)
		n.of = append(n.of, e)
	}
	return n, rest
}

func (n *node) append(b []byte) []byte {
	if n.of == nil {
		return append(b, n.raw...)
	}
	if n.isMap {
		b = append(b, 0xdf, 0, 0, byte(len(n.of)/2>>8), byte(len(n.of)/2))
	} else {
		b = append(b, 0xdd, 0, 0, byte(len(n.of)>>8), byte(len(n.of)))
	}
	for _, e := range n.of {
		b = e.append(b)
	}
	return b
}

// nodes lists a tree.
func (n *node) nodes() []*node {
	list := []*node{n}
	for _, e := range n.of {
		list = append(list, e.nodes()...)
	}
	return list
}

// odd lists values that do not fit, or only just.
var odd = [][]byte{
	{0xc0}, {0xc2}, {0xc3}, {0x00}, {0x01}, {0x7f}, {0xff}, {0xd0, 0x80}, {0xcc, 0xff}, {0xcd, 0xff, 0xff},
	{0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0},
	{0xd2, 0, 0, 0, 7},
	{0xca, 0x3f, 0x80, 0, 0}, {0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0}, {0xa0}, {0xa1, 'x'}, {0xd9, 1, 'x'},
	{0xda, 0, 1, 'x'},
	{0xc4, 0}, {0xc4, 1, 'x'}, {0xc5, 0, 1, 'x'}, {0x90}, {0x91, 0xc0}, {0x92, 0x61, 0x62},
	{0x91, 0xa1, 'x'}, {0x80},
	{0x81, 0xa1, 'x', 0xc0}, {0x81, 0xa1, 'x', 0x01}, {0x82, 0xa1, 'x', 0x01, 0xa1, 'x', 0xa1, 'y'},
	{0x81, 0x01, 0x01},
	{0xd4, 5, 1}, {0xd6, 0xff, 0, 0, 0, 1}, {0xd7, 0xff, 0, 0, 0, 4, 0, 0, 0, 1}, {0xc7, 4, 0xff, 0, 0, 0, 1},
	{0xc7, 12, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, {0xd5, 0xff, 0, 0}, {0xa4, 0, 0, 0, 1}, {0xc1},
}

// change changes one place of the tree.
func (n *node) change(f *filler) {
	list := n.nodes()
	at := list[f.IntN(len(list))]
	if !at.isMap || len(at.of) == 0 || f.IntN(3) > 0 {
		*at = node{raw: odd[f.IntN(len(odd))]}
		return
	}
	i := 2 * f.IntN(len(at.of)/2)
	switch f.IntN(4) {
	case 0: // another order
		f.Shuffle(len(at.of)/2, func(i, j int) {
			at.of[2*i], at.of[2*j] = at.of[2*j], at.of[2*i]
			at.of[2*i+1], at.of[2*j+1] = at.of[2*j+1], at.of[2*i+1]
		})
	case 1: // a field more
		at.of = append(at.of, &node{raw: []byte("\xa3new")}, at.of[i+1])
	case 2: // one twice
		at.of = append(at.of, at.of[i], &node{raw: odd[f.IntN(len(odd))]})
	case 3: // a name as bytes
		if raw := at.of[i].raw; len(raw) > 0 && raw[0] >= 0xa0 && raw[0] <= 0xbf {
			at.of[i] = &node{raw: append([]byte{0xc4, raw[0] & 0x1f}, raw[1:]...)}
		}
	}
}

func FuzzBothReadTheSame(f *testing.F) {
	for i, v := range all {
		f.Add(uint16(i), byHandle(f, newFiller(uint64(i)).fillValue(newOf(v))))
		f.Add(uint16(i), []byte{0xdf, 0x7f, 0xff, 0xff, 0xff})
	}
	f.Fuzz(func(t *testing.T, i uint16, b []byte) {
		got := newOf(all[int(i)%len(all)])
		want := newOf(all[int(i)%len(all)])
		if codec.Decode(b, got) != nil {
			return
		}
		if err := fromHandle(b, want); err != nil {
			t.Fatalf("%T: Decode reads %x, the Handle fails with %v", got, b, err)
		}
		if !reflect.DeepEqual(got, want) && !bytes.Equal(byHandle(t, got), byHandle(t, want)) {
			t.Fatalf("%T from %x:\n got %+v\nwant %+v", got, b, got, want)
		}
	})
}
