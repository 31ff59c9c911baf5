package rowfilter

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-bexpr"
	"pgregory.net/rapid"
)

type text string

type inner struct {
	Name  string
	Tags  map[string]string
	Sizes []int
	Next  *inner
	deep
}

type deep struct{ Hidden string }

// Stamp is embedded, as what rows have in common.
type Stamp struct{ Created, Changed uint64 }

// aRow has a field of each kind that something is done with.
type aRow struct {
	Name    string
	Kind    text
	Size    int
	Small   int8
	Count   uint16
	Part    float64
	Half    float32
	On      bool
	Tags    map[string]string
	Kinds   map[text]text
	ByPlace map[int]string
	Lists   map[string][]string
	Names   []string
	Sizes   []int
	Ptrs    []*string
	Fixed   [2]uint8
	Bytes   []byte
	One     *inner
	All     []*inner
	Some    map[string]*inner
	Any     any
	Anys    []any
	Free    map[string]any
	PtrMap  *map[string]string
	PtrPtr  **string
	Number  json.Number
	Func    func()
	Chan    chan int
	Tagged  struct {
		A string `bexpr:"B"`
		B string
	}
	own string
	Stamp
}

var (
	texts   = rapid.SampledFrom([]string{"", "a", "ab", "b", "1", "0", "7", "true", "1.5", "-1", "0x1"})
	numbers = rapid.IntRange(-1, 7)
	tags    = rapid.OneOf(rapid.Just(map[string]string(nil)), rapid.MapOfN(texts, texts, 0, 3))
	anies   = rapid.OneOf(rapid.Just[any](nil), rapid.Map(texts, func(s string) any { return s }), rapid.Map(numbers, func(i int) any { return i }),
		rapid.Map(texts, func(s string) any { return json.Number(s) }), rapid.Map(texts, func(s string) any { return &s }),
		rapid.Map(tags, func(m map[string]string) any { return m }), rapid.Just[any](map[string]any{"a": []any{1, "b"}}), rapid.Just[any]((*inner)(nil)))
)

func anInner(t *rapid.T, depth int) *inner {
	if depth == 0 || rapid.IntRange(0, 4).Draw(t, "nil") == 0 {
		return nil
	}
	return &inner{
		Name: texts.Draw(t, "name"), Tags: tags.Draw(t, "tags"), Sizes: rapid.SliceOfN(numbers, 0, 2).Draw(t, "sizes"),
		Next: anInner(t, depth-1), deep: deep{"h"},
	}
}

func anyRow(t *rapid.T) *aRow {
	ptr := texts.Draw(t, "ptr")
	pp := &ptr
	r := &aRow{
		Name: texts.Draw(t, "Name"), Kind: text(texts.Draw(t, "Kind")), Size: numbers.Draw(t, "Size"), Small: int8(numbers.Draw(t, "Small")),
		Count: uint16(max(0, numbers.Draw(t, "Count"))), Part: float64(numbers.Draw(t, "Part")) / 2, Half: float32(numbers.Draw(t, "Half")) / 2,
		On: rapid.Bool().Draw(t, "On"), Tags: tags.Draw(t, "Tags"), Kinds: map[text]text{"a": text(ptr)}, ByPlace: map[int]string{1: ptr},
		Lists: map[string][]string{"a": {ptr, "b"}, "b": nil}, Names: rapid.SliceOfN(texts, 0, 3).Draw(t, "Names"),
		Sizes: rapid.SliceOfN(numbers, 0, 3).Draw(t, "Sizes"), Ptrs: []*string{&ptr}, Fixed: [2]uint8{1, 7}, Bytes: []byte(ptr),
		One: anInner(t, 2), Any: anies.Draw(t, "Any"), Anys: rapid.SliceOfN(anies, 0, 3).Draw(t, "Anys"),
		Free: map[string]any{"a": anies.Draw(t, "a"), "b": anies.Draw(t, "b")}, PtrPtr: &pp, Number: json.Number(texts.Draw(t, "Number")),
		own: "x", Stamp: Stamp{Created: 1, Changed: uint64(max(0, numbers.Draw(t, "Changed")))},
	}
	r.Tagged.A, r.Tagged.B = ptr, "b"
	if rapid.Bool().Draw(t, "more") {
		r.PtrMap, r.Some = &r.Tags, map[string]*inner{"a": anInner(t, 2), "b": nil}
		r.Ptrs = append(r.Ptrs, nil)
	}
	for range rapid.IntRange(0, 2).Draw(t, "All") {
		r.All = append(r.All, anInner(t, 2))
	}
	return r
}

// anExpression writes one; names are those that loops around it give.
func anExpression(t *rapid.T, depth int, names []string) string {
	kind := rapid.IntRange(0, 6).Draw(t, "node")
	if depth == 0 {
		kind = 6
	}
	sub := func() string { return anExpression(t, depth-1, names) }
	switch kind {
	case 0:
		return "not " + "(" + sub() + ")"
	case 1:
		return "(" + sub() + ") and (" + sub() + ")"
	case 2:
		return "(" + sub() + ") or (" + sub() + ")"
	case 3, 4:
		given := rapid.SampledFrom([]string{"x", "y", "Name", "Tags", "All"})
		a, b := given.Draw(t, "given"), given.Draw(t, "given")
		over := rapid.OneOf(rapid.SampledFrom([]string{"Tags", "Names", "Lists.a", "Lists.x"}), rapid.Custom(func(t *rapid.T) string { return aSelector(t, names) })).Draw(t, "over")
		as := rapid.SampledFrom([]string{a, a + ", _", "_, " + b, a + ", " + b}).Draw(t, "as")
		names = append(names[:len(names):len(names)], a, b)
		return rapid.SampledFrom([]string{"any", "all"}).Draw(t, "any") + " " + over + " as " + as + " { " + anExpression(t, depth-1, names) + " }"
	}
	return aCondition(t, names)
}

// fitting are selectors by the operators that they fit, and so mostly give an answer.
var fitting = []struct{ where, ops, values []string }{
	{[]string{"Name", "Kind", "Tags.a", "Tags.1", "Kinds.a", "Kinds.b", "Lists.a.0", "Tagged.B"},
		[]string{"==", "!=", "contains", "not in", "matches", "not matches", "is empty"}, []string{"", "a", "b", "1", "^a", "b$"}},
	{[]string{"Size", "Small", "Count", "Created", "Changed", "Fixed.1"}, []string{"==", "!="}, []string{"0", "1", "7", "0x1"}},
	{[]string{"Part", "Half"}, []string{"==", "!="}, []string{"0", "1.5", "-0.5"}},
	{[]string{"On"}, []string{"==", "!="}, []string{"true", "0"}},
	{[]string{"Tags", "Names", "Kinds", "Lists.a", "Lists.b", "Lists.x"}, []string{"in", "not in", "contains", "not contains", "is empty", "is not empty", "is nil", "is not nil"}, []string{"", "a", "1"}},
	{[]string{"Sizes", "Fixed"}, []string{"in", "not in", "contains", "is empty"}, []string{"1", "7", "0"}},
	{[]string{"One", "PtrMap", "Free.a", "Some.a", "Free", "Some.x"}, []string{"is nil", "is not nil"}, []string{""}},
}

func aFittingCondition(t *rapid.T, names []string) string {
	of := rapid.SampledFrom(fitting).Draw(t, "of")
	if len(names) > 0 && rapid.Bool().Draw(t, "of the loop") {
		of, of.where = fitting[0], names
	}
	where, value := rapid.SampledFrom(of.where).Draw(t, "where"), fmt.Sprintf("%q", rapid.SampledFrom(of.values).Draw(t, "value"))
	return condition(where, rapid.SampledFrom(of.ops).Draw(t, "op"), value)
}

func aCondition(t *rapid.T, names []string) string {
	if rapid.IntRange(0, 7).Draw(t, "any") > 0 {
		return aFittingCondition(t, names)
	}
	where, value := aSelector(t, names), fmt.Sprintf("%q", rapid.OneOf(texts, rapid.SampledFrom([]string{"^a", "(", "b$", "x"})).Draw(t, "value"))
	op := rapid.SampledFrom([]string{"==", "!=", "contains", "not contains", "matches", "not matches", "in", "not in", "is empty", "is not empty", "is nil", "is not nil"}).Draw(t, "op")
	return condition(where, op, value)
}

func condition(where, op, value string) string {
	switch {
	case strings.HasPrefix(op, "is"):
		return where + " " + op
	case strings.HasSuffix(op, "in"):
		return value + " " + op + " " + where
	}
	return where + " " + op + " " + value
}

func aSelector(t *rapid.T, names []string) string {
	fields := []string{
		"Name", "Kind", "Size", "Small", "Count", "Part", "Half", "On", "Tags", "Kinds", "ByPlace", "Lists", "Names", "Sizes", "Ptrs", "Fixed", "Bytes",
		"One", "All", "Some", "Any", "Anys", "Free", "PtrMap", "PtrPtr", "Number", "Func", "Chan", "Tagged", "own", "Stamp", "Created", "Changed", "Nonsense",
	}
	parts := []string{"a", "b", "A", "B", "Name", "Tags", "Sizes", "Next", "Hidden", "deep"}
	if len(names) > 0 && rapid.IntRange(0, 3).Draw(t, "free") > 0 {
		fields = names
	}
	path := rapid.SampledFrom(fields).Draw(t, "top")
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3}).Draw(t, "parts") {
		if rapid.IntRange(0, 2).Draw(t, "place") == 0 {
			path += rapid.SampledFrom([]string{".0", ".1", ".01", ".9", `["0x1"]`, `[""]`, `["-1"]`}).Draw(t, "index")
		} else {
			path += "." + rapid.SampledFrom(parts).Draw(t, "part")
		}
	}
	return path
}

// reference is what go-bexpr says: "true", "false" or "error".
func reference(e *bexpr.Evaluator, row any) string {
	s := slowFilter{evaluator: e}
	ok, err := s.match(row)
	if err != nil {
		return "error"
	}
	return fmt.Sprint(ok)
}

// TestSameAnswersAsGoBexpr also asks go-bexpr again: it goes through maps in any order, and may or may not
// get to what is an error.
func TestSameAnswersAsGoBexpr(t *testing.T) {
	answers := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		expression := anExpression(t, 3, nil)
		e, err := bexpr.CreateEvaluator(expression)
		f, ferr := New(expression)
		if (err == nil) != (ferr == nil) {
			t.Fatalf("%s: go-bexpr says %v, the filter %v", expression, err, ferr)
		}
		if err != nil {
			return
		}
		for range 4 {
			row := anyRow(t)
			got := "error"
			if ok, err := f.Match(row); err == nil {
				got = fmt.Sprint(ok)
			}
			want := reference(e, row)
			for again := 0; want != got && again < 100; again++ {
				want = reference(e, row)
			}
			if want != got {
				t.Fatalf("%s: %s, want %s of %+v", expression, got, want, row)
			}
			answers[got]++
		}
	})
	if !t.Failed() && (answers["true"] == 0 || answers["false"] == 0 || answers["error"] == 0) {
		t.Errorf("nothing but %v was compared", answers)
	}
}
