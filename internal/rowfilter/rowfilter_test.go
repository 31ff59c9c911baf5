package rowfilter

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Name  string
	Tags  map[string]string
	Sizes []int
}

// Stamp is embedded, as the part that all rows have.
type Stamp struct{ Created, Changed uint64 }

type row struct {
	Name  string
	Kind  string
	Size  int
	On    bool
	Tags  map[string]string
	Names []string
	Fixed [2]uint8
	One   *inner
	All   []*inner
	Some  map[string]*inner
	Anys  []any
	own   string
	Stamp
}

func newRow() *row {
	return &row{
		Name:  "db-1",
		Kind:  "disk",
		Size:  3,
		On:    true,
		own:   "x",
		Stamp: Stamp{Created: 7},
		Tags:  map[string]string{"zone": "z1"},
		Names: []string{"a", "b"},
		Anys:  []any{1, "a"},
		All: []*inner{
			{Name: "x", Tags: map[string]string{"zone": "z1", "rack": "r1"}},
			{Name: "y", Sizes: []int{1, 2}},
		},
		Some: map[string]*inner{"k": {Name: "n"}},
	}
}

// expressions have their results on newRow.
var expressions = map[string]bool{
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

func TestMatch_HasTheMeaningOfGoBexpr(t *testing.T) {
	for expression, want := range expressions {
		f, err := New(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		for range 2 {
			if got, err := f.Match(newRow()); got != want || err != nil {
				t.Errorf("%s: got %v, %v; want %v", expression, got, err, want)
			}
		}
	}
}

func TestMatch_LeavesTheRowAsItIs(t *testing.T) {
	r := newRow()
	for expression := range expressions {
		if f, err := New(expression); err == nil {
			_, _ = f.Match(r)
		}
	}
	if !reflect.DeepEqual(r, newRow()) {
		t.Errorf("the row has changed to %+v", r)
	}
}

func TestMatch_TakesRowsOfTwoTypes(t *testing.T) {
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
		if ok, err := f.Match(newRow()); !ok || err != nil {
			t.Errorf("a row: got %v, %v; want true", ok, err)
		}
		if ok, err := f.Match(&other{Size: "4"}); ok || err != nil {
			t.Errorf("a row of another type: got %v, %v; want false", ok, err)
		}
		if ok, err := f.Match(&other{Size: "3"}); err == nil {
			t.Errorf("a field that rows do not have: got %v, want an error", ok)
		}
	}
}

func TestErrors_NameThePlace(t *testing.T) {
	for expression, want := range map[string][]string{
		`Name ==`: {"is not an expression", "1:8"},
		`Nonsense == 1`: {"does not fit the rows", "/Nonsense at part 0",
			"rows have Name, Kind"},
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
			_, err = f.Match(newRow())
		}
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%.50s: got %v, want %q", expression, err, part)
			}
		}
	}
}

// TestMatch_BoundsTheCost: loops within loops, and patterns, go over the values of one row.
func TestMatch_BoundsTheCost(t *testing.T) {
	large := &row{Names: make([]string, 300), Name: strings.Repeat("a", 10000)}
	for _, expression := range []string{
		`any Names as a { any Names as b { any Names as c { any Names as d { a == "x" }}}}`,
		`any Names as a { any Names as b { "x" in Names }}`,
		`any Names as a, _ { any Names as b, _ { any Names as c, _ { any Names as d, _ { a == 300 }}}}`,
		`any Names as a { any Names as b { any Names as c { any Tags as d { d == "x" }}}}`,
		`any Names as a { Name matches "(a?){400}x" }`,
	} {
		f, err := New(expression)
		if err != nil {
			t.Fatal(err)
		}
		f.left /= 10
		if _, err := f.Match(large); err == nil || !strings.Contains(err.Error(), "steps per row") {
			t.Errorf("%s: got %v, want that it takes too many steps", expression, err)
		}
	}
}

// TestMatch_BoundsTheCostOfConditionsOnIndexesAndKeys: go-bexpr looks up no value for these conditions.
func TestMatch_BoundsTheCostOfConditionsOnIndexesAndKeys(t *testing.T) {
	large := &row{Names: make([]string, 300), Tags: map[string]string{}}
	for i := range 50 {
		large.Tags[fmt.Sprint(strings.Repeat("a", 40), i)] = "x"
	}
	for _, expression := range []string{
		`any Names as i, _ { ` + strings.Repeat(`i == 999 or `, 400) + `i == 999 }`,
		`any Tags as k { ` + strings.Repeat(`k == "x" or `, 400) + `k == "x" }`,
		`any Tags as k, v { ` + strings.Repeat(`k == "x" or `, 400) + `k == "x" }`,
		`any Tags as k { k matches "(a|a?){100}x" }`,
	} {
		f, err := New(expression)
		if err != nil {
			t.Fatal(err)
		}
		f.left = 0
		_, err = f.Match(large)
		if err == nil || !strings.Contains(err.Error(), "steps per row") {
			t.Errorf("%.30s: got %v, want that it takes too many steps", expression, err)
		}
	}
	small := `(any Tags as k, v { k == "zone" and v == "z1" }) and (any Names as i, n { i == 1 and n == "b" })`
	f, err := New(small)
	if err != nil {
		t.Fatal(err)
	}
	f.left = 0
	if ok, err := f.Match(newRow()); !ok || err != nil {
		t.Errorf("a small condition on keys and indexes: got %v, %v; want true", ok, err)
	}
}

func TestMatch_AllowsConditionsOnManyRows(t *testing.T) {
	conditions := strings.Repeat(`Name == "x" or (any All as i { i.Tags.rack == "r2" }) or `, 8) + `Size == 4`
	f, err := New(conditions)
	if err != nil {
		t.Fatal(err)
	}
	f.left = 0
	for i := range 1000 {
		if _, err := f.Match(newRow()); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
	}
}

// FuzzFilter: a filter of any text matches, does not match or fails, and takes bounded time.
func FuzzFilter(f *testing.F) {
	for expression := range expressions {
		f.Add(expression)
	}
	f.Add(`"" == 1 or any All as x, x { x is nil }`)
	f.Add(`On == true and not (Size == 4 or nothing == "5")`) // go-bexpr negates the answer beside the error
	f.Fuzz(func(t *testing.T, expression string) {
		filter, err := New(expression)
		if err != nil {
			return
		}
		ok, err := filter.Match(newRow())
		if ok && err != nil {
			t.Fatalf("%q matches and fails with %v", expression, err)
		}
	})
}
