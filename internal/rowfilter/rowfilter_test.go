package rowfilter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-bexpr"
)

func plainRow() *aRow {
	return &aRow{
		Name: "db-1", Kind: "disk", Size: 3, On: true, Tags: map[string]string{"zone": "z1"}, Names: []string{"a", "b"}, Anys: []any{1, "a"}, Stamp: Stamp{Created: 7},
		All: []*inner{{Name: "x", Tags: map[string]string{"zone": "z1", "rack": "r1"}}, {Name: "y", Sizes: []int{1, 2}}}, Some: map[string]*inner{"k": {Name: "n"}},
	}
}

// plain are expressions that go-bexpr is not needed for.
var plain = map[string]bool{
	`Name == "db-1"`:             true,
	`Name != "db-1"`:             false,
	`Kind == disk and Size != 0`: true,
	`Name matches "^db"`:         true,
	`Name not matches "^db"`:     false,
	`"b-" in Name`:               true,
	`"zone" in Tags`:             true,
	`"c" not in Names`:           true,
	`Names contains "a"`:         true,
	`Tags.zone == "z1"`:          true,
	`Tags.none == "z1"`:          false,
	`Tags.none != "z1"`:          true,
	`Tags is empty`:              false,
	`One is nil`:                 true,
	`One is not nil`:             false,
	`Created == 7`:               true,
	`All.0.Tags.rack == "r1"`:    true,
	`"/Tags/zone" == "z1"`:       true,
	`On == true and not (Size == 4 or Size == "0x5")`:                  true,
	`any All as i { "zone" in i.Tags }`:                                true,
	`all All as i { "zone" in i.Tags }`:                                false,
	`any All as n, i { n == 1 and 2 in i.Sizes }`:                      true,
	`any All as i { any i.Tags as k, v { k == "rack" and v == "r1" }}`: true,
	`all Some as _, s { s.Name == "n" }`:                               true,
	`Names["0x1"] == "b"`:                                              true,
	`"a" in Anys`:                                                      true,
	`any Tags as k { k == "zone" }`:                                    true,
	`any Tags.none as k { k == "zone" }`:                               false,
}

func TestPlainExpressions(t *testing.T) {
	for expression, want := range plain {
		f, err := New(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		for range 2 {
			if got, err := f.Match(plainRow()); got != want || err != nil || f.slow != nil {
				t.Errorf("%s: %v, %v, by go-bexpr: %v; want %v", expression, got, err, f.slow != nil, want)
			}
		}
		if f.row.IsValid() || len(f.loops) > 0 && f.loops[0].value.IsValid() {
			t.Errorf("%s: the row is remembered", expression)
		}
	}
}

// TestOneFilterForRowsOfTwoTypes: what is remembered of a type is not used with another.
func TestOneFilterForRowsOfTwoTypes(t *testing.T) {
	type other struct {
		Size string
		Name struct{ Tags []string }
		Tags struct{ zone, Zone string }
	}
	f, err := New(`Size == 3 and Tags.zone != "x"`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ok, err := f.Match(plainRow()); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := f.Match(&other{Size: "4"}); ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := f.Match(&other{Size: "3"}); err == nil {
			t.Error("a field that rows do not have is found:", ok)
		}
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	for expression, want := range map[string][]string{
		`Name ==`:                             {"is not an expression", "1:8"},
		`Nonsense == 1`:                       {"does not fit the rows", "/Nonsense at part 0", "rows have Name, Kind"},
		`Size == "x"`:                         {"does not fit the rows", `parsing "x"`},
		`Name matches "("`:                    {"does not fit the rows", "missing closing )"},
		`One matches "x"`:                     {"does not fit the rows", "a value is missing"},
		`Fixed is nil`:                        {"does not fit the rows", "a value is missing or of a kind"},
		`any Name as n { n == 1 }`:            {"does not fit the rows", "Name is not a list or a map"},
		strings.Repeat("(", 12) + `Name == x`: {"is not an expression", "nested 12 deep"},
		`Name == "` + strings.Repeat("x", MaxLength) + `"`:        {"has 65546 bytes; expected 65536 at most"},
		`Name matches "((abcde){100}){10}"`:                       {"size", "expected 4000 at most"},
		strings.Repeat(`Name matches "a{900}" or `, 5) + `x == 1`: {"size", "expected 4000 at most"},
	} {
		f, err := New(expression)
		if err == nil {
			_, err = f.Match(plainRow())
		}
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%.50s: %v; want %q", expression, err, part)
			}
		}
	}
}

// TestCostIsBounded: loops within loops, and patterns, over what one row holds.
func TestCostIsBounded(t *testing.T) {
	row := &aRow{Names: make([]string, 300), Name: strings.Repeat("a", 10000)}
	for _, expression := range []string{
		`any Names as a { any Names as b { any Names as c { any Names as d { a == "x" }}}}`,
		`any Names as a { any Names as b { "x" in Names }}`,
		`any Names as a { any Names as b { any Names as c { any Tags as d { d == "x" }}}}`,
		`any Names as a { Name matches "(a?){400}x" }`,
	} {
		f, err := New(expression)
		if err != nil {
			t.Fatal(err)
		}
		f.left /= 100
		if _, err := f.Match(row); err == nil || !strings.Contains(err.Error(), "comparisons per row") || f.slow != nil {
			t.Errorf("%s: %v", expression, err)
		}
	}
	f, err := New(`any Names as a { a == "x" or Name == "y" }`)
	for i := range 1000 {
		if err == nil {
			_, err = f.Match(row)
		}
		if err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	row := plainRow()
	for expression, most := range map[string]float64{
		`Name == "x" or Kind == "disk" and Size != 0 and On == true`: 0,
		`Name matches "^db" and Created == 7`:                        0,
		`"c" not in Names`:                                           0,
		`Tags.zone == "z1" and "zone" in Tags`:                       2,
	} {
		f, err := New(expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := testing.AllocsPerRun(100, func() { _, _ = f.Match(row) }); got > most {
			t.Errorf("%s: %v allocations of memory per row; want %v at most", expression, got, most)
		}
	}
}

// FuzzFilter holds any text against go-bexpr.
func FuzzFilter(f *testing.F) {
	for expression := range plain {
		f.Add(expression)
	}
	f.Add(`"" == 1 or any All as x, x { x is nil }`)
	f.Fuzz(func(t *testing.T, expression string) {
		filter, err := New(expression)
		e, parseErr := bexpr.CreateEvaluator(expression)
		if parseErr != nil && err == nil {
			t.Fatalf("%q is accepted, go-bexpr says %v", expression, parseErr)
		}
		if err != nil {
			return
		}
		row := plainRow()
		got := "error"
		if ok, err := filter.Match(row); err == nil {
			got = fmt.Sprint(ok)
		} else if strings.Contains(err.Error(), "comparisons per row") {
			return
		}
		want := reference(e, row)
		for again := 0; want != got && again < 100; again++ {
			want = reference(e, row)
		}
		if got != want {
			t.Fatalf("%q: %s, want %s", expression, got, want)
		}
	})
}
