package fastjson_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"berth/internal/fastjson"
	"berth/structs"
	"berth/structs/cluster"
)

// checkSame fails unless v is appended to the buffer as encoding/json encodes it.
func checkSame(t *testing.T, e *fastjson.Encoder, v any) {
	t.Helper()
	want, err := json.Marshal(v)
	got, gotErr := e.Append([]byte("before"), v)
	if (err == nil) != (gotErr == nil) {
		t.Fatalf("%T: got error %v, want %v", v, gotErr, err)
	}
	if err == nil && !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Fatalf("%T:\n got %s\nwant before%s", v, got, want)
	}
}

// embedding embeds a struct by a pointer.
type embedding struct {
	*structs.Allocation
}

type node struct {
	Name     string
	Children []*node `json:",omitempty"`
	Parent   *node
}

type (
	inner struct {
		A string `json:"a_b,omitempty"`
		B int
	}
	hidden struct{ C, D bool }
	byText struct{ s string }
	byPtr  struct{ N int }
	named  string
)

func (b byText) MarshalText() ([]byte, error) { return []byte("<" + b.s + ">"), nil }

func (b *byPtr) MarshalJSON() ([]byte, error) { return []byte(`{"by": "pointer"}`), nil }

type manyKinds struct {
	inner
	hidden    `json:"-"`
	Structs   hidden `json:",omitempty"`
	Omitted   *inner `json:",omitempty"`
	Maps      map[named]*inner
	OfMaps    map[string]map[string]string
	Ints      map[int]string
	Texts     map[byText]int
	Bytes     []byte
	Arrays    [2]int
	Float     float64
	Floats    map[string]float64 `json:",omitempty"`
	Any       any
	Anys      map[string]any
	ByPtr     byPtr
	ByPtrs    []byPtr
	InMap     map[string]byPtr
	ByText    *byText
	Recursive *node
	Small     int8
	Large     uint64
	Rune      rune
	Named     named
	When      time.Time
	Whens     map[string]time.Time
	Duration  time.Duration
	Raw       json.RawMessage `json:",omitempty"`
}

type (
	shadowed struct {
		inner
		B string
	}
	ambiguous struct {
		inner
		Other struct{ X int } `json:"B"`
	}
	quoted struct {
		N int `json:",string"`
	}
	zeroes struct {
		T time.Time `json:",omitzero"`
	}
	pointing struct{ *inner }
	renamed  struct {
		inner `json:"inner"`
		Odd   int `json:"a\"b"` //nolint:staticcheck // names that have to be escaped are the point
		Html  int `json:"a<b"`
		Dash  int `json:"-,"` //nolint:staticcheck // a field named "-" is the point
	}
)

// types returns a value of each type that the tests encode.
func types() []any {
	return []any{
		&structs.CSIVolumeListStub{}, &structs.CSIPluginListStub{}, &structs.NodeListStub{},
		&structs.AllocListStub{}, &structs.JobListStub{},
		&structs.CSIClaim{}, &structs.CSIAttachment{}, &structs.Evaluation{}, &structs.CSIVolumeDetail{},
		&structs.CSIPlugin{}, &structs.NodeDetail{},
		&structs.Allocation{}, &structs.Job{}, &structs.JobSummary{}, &structs.CSIPluginInstance{},
		&cluster.AgentMember{}, structs.Empty{}, embedding{},
		&manyKinds{}, manyKinds{}, shadowed{}, ambiguous{}, quoted{}, zeroes{}, pointing{}, &renamed{}, []hidden{},
		map[string]*manyKinds{}, "", 0, true, 1.5, []string{},
		[]*inner{}, map[string]string{}, named(""), time.Time{}, byText{}, byPtr{}, &byPtr{}, new(*inner),
		struct{}{},
	}
}

// TestAppend_WritesTheBytesOfEncodingJSON: the values are random and of every type that the API answers with.
func TestAppend_WritesTheBytesOfEncodingJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var e fastjson.Encoder
	for _, of := range types() {
		checkSame(t, &e, of)
		for range 200 {
			v := reflect.New(reflect.TypeOf(of)).Elem()
			fillRandom(r, v, 0)
			checkSame(t, &e, v.Interface())
		}
	}
	checkSame(t, &e, nil)
}

var texts = []string{"", "plain", "a/b", "quote\"", "back\\slash", "<&>", "tab\tnul\x00del\x7f", "ümlaut",
	"\u2028 \u2029", "\xff\xc3", "日本", "v[0]"}

// fillRandom sets a random value. Deep fields stay empty.
func fillRandom(r *rand.Rand, v reflect.Value, depth int) {
	if depth > 7 || !v.CanSet() || depth > 0 && r.IntN(5) == 0 {
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		at := time.Unix(r.Int64N(1<<33), []int64{0, 5, 120000, r.Int64N(1e9)}[r.IntN(4)])
		zones := []*time.Location{time.UTC, time.FixedZone("", 3600), time.FixedZone("", -5400)}
		v.Set(reflect.ValueOf(at.In(zones[r.IntN(3)])))
		return
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a": [1, "<"]}`))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.Uint64()) >> r.IntN(64))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64))
	case reflect.Float64:
		v.SetFloat([]float64{r.NormFloat64(), 1e21, 1e-7, 100, math.Copysign(0, -1)}[r.IntN(5)])
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))] + texts[r.IntN(len(texts))])
	default:
		fillCompound(r, v, depth)
	}
}

func fillCompound(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillRandom(r, v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fillRandom(r, v.Index(i), depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillRandom(r, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(5) {
			key := reflect.New(v.Type().Key()).Elem()
			elem := reflect.New(v.Type().Elem()).Elem()
			fillRandom(r, key, depth+1)
			fillRandom(r, elem, depth+1)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillRandom(r, v.Field(i), depth+1)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf([]any{1, "<", 2.5, map[string]any{"a": nil}, &byPtr{}}[r.IntN(5)]))
		}
	}
}

func TestAppend_FailsWhereEncodingJSONFails(t *testing.T) {
	var e fastjson.Encoder
	loop := &node{Name: "loop"}
	loop.Parent = &node{Name: "its parent", Children: []*node{loop}}
	for _, v := range []any{
		make(chan int),
		func() {},
		math.NaN(),
		map[string]any{"x": math.Inf(1)},
		loop,
		&structs.TaskState{StartedAt: time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)},
		&manyKinds{Float: math.NaN()},
	} {
		checkSame(t, &e, v)
	}
	checkSame(t, &e, &structs.CSIClaim{VolumeID: "a value after an error"})
}

func TestAppend_AllocatesNothingForRows(t *testing.T) {
	topology := &structs.CSITopology{Segments: map[string]string{"zone": "a", "rack": "b"}}
	rows := []any{
		&structs.CSIVolumeListStub{ID: "v", Topologies: []*structs.CSITopology{topology}},
		&structs.CSIClaim{VolumeID: "v"},
		&structs.AllocListStub{ID: "a"},
		&structs.CSIPluginListStub{ID: "p"},
	}
	var e fastjson.Encoder
	buf := make([]byte, 0, 4096)
	n := testing.AllocsPerRun(100, func() {
		for _, row := range rows {
			if _, err := e.Append(buf, row); err != nil {
				t.Error(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("the rows take %v allocations, want none", n)
	}
}

func BenchmarkRow(b *testing.B) {
	row := &structs.CSIVolumeListStub{
		ID:          "vol-00000001",
		Namespace:   "default",
		Name:        "vol-00000001",
		ExternalID:  "ext-0b8ee1b2-1c9d-4bb4-9d22-0f8b9b3ff5a1",
		State:       "ready",
		Topologies:  []*structs.CSITopology{{Segments: map[string]string{"zone": "zone-1", "rack": "rack-11"}}},
		Schedulable: true,
		PluginID:    "ebs0",
		Provider:    "ebs.csi.example.test",
	}
	b.Run("fast", func(b *testing.B) {
		var e fastjson.Encoder
		buf := make([]byte, 0, 4096)
		for b.Loop() {
			if _, err := e.Append(buf, row); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		var buf bytes.Buffer
		e := json.NewEncoder(&buf)
		for b.Loop() {
			buf.Reset()
			if err := e.Encode(row); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func FuzzStrings(f *testing.F) {
	for _, s := range texts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var e fastjson.Encoder
		checkSame(t, &e, s)
		checkSame(t, &e, map[string]string{s: s})
	})
}
