package conf

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// decodeFaults returns the faults of a source.
func decodeFaults(t *testing.T, src string, dst any) *JSONFaults {
	t.Helper()
	err := DecodeJSON([]byte(src), dst, nil)
	var faults *JSONFaults
	if !errors.As(err, &faults) || !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("%s: got %v, want faults", structs.Cut(src, 200), err)
	}
	return faults
}

// TestDecode_ReportsAllFaults has a source with a fault of each sort. The target has the other parts.
func TestDecode_ReportsAllFaults(t *testing.T) {
	const src = `{"ID": 5, "On": true, "on": false,
 "Groups": [{"Count": 1.5, "Wait": "x", "Tags": {"a": 1, "b": "c"}}, 7, {"Coutn": 3, "Wait": 2}],
 "ByName": {"x": [{"deep": [1]}], "y": {"Count": 4}},
 "At": "soon", "Bytes": "?", "Index": 3}`
	var got target
	faults := decodeFaults(t, src, &got)
	const want = `ID: expected a string, found a number (line 1, column 8)
On: the field is given twice (line 1, column 23)
Groups[0].Count: expected a whole number of 64 bits, found 1.5 (line 2, column 23)
Groups[0].Wait: expected a number, found a string (line 2, column 36)
Groups[0].Tags["a"]: expected a string, found a number (line 2, column 55)
Groups[1]: expected an object, found a number (line 2, column 70)
Groups[2].Coutn: berth does not know this field (did you mean "Count"?) (line 2, column 74)
ByName["x"]: expected an object, found a list (line 3, column 18)
`
	if !strings.HasPrefix(faults.Error(), want) || len(faults.List) != 10 || !faults.Partly {
		t.Errorf("got %v\nwant %s and the faults of At and Bytes", faults, want)
	}
	two, four := 2*time.Nanosecond, 4
	expected := target{
		Groups:   []*jsonInner{{Tags: map[string]string{"a": "", "b": "c"}}, {}, {Wait: two}},
		ByName:   map[string]*jsonInner{"x": {}, "y": {Count: &four}},
		embedded: embedded{Index: 3},
	}
	if !reflect.DeepEqual(got, expected) {
		t.Errorf("got %+v, want %+v", got, expected)
	}
	var lost []string
	for _, f := range faults.List {
		if f.Empty {
			f.Lost += "!"
		}
		lost = append(lost, f.Lost)
	}
	const fields = "ID On Count Wait Tags Groups! Count ByName! At Bytes"
	if got := strings.Join(lost, " "); got != fields {
		t.Errorf("lost are %s, want %s", got, fields)
	}
}

// TestDecode_ReportsFaultsBeforeOneOfTheSyntax has a fault before the end of what can be read.
func TestDecode_ReportsFaultsBeforeOneOfTheSyntax(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`{"New": 1, "ID": nul}`, "not JSON"},
		{`{"New": 1, "ID": "x"} 2`, "expected the end of the body"},
		{`{"New": 1, "ID": "x"`, "the body ends in the middle of a value"},
	} {
		var got target
		faults := decodeFaults(t, c.src, &got)
		if len(faults.List) != 2 || faults.Partly || !strings.Contains(faults.List[1].Text, c.want) {
			t.Errorf("%s: got %v, %v, want New and %s", c.src, faults, faults.Partly, c.want)
		}
	}
}

// TestDecode_CountsFaultsBeyondTheBound has a source of many faults. It takes a time that does not grow with
// their product with the length.
func TestDecode_CountsFaultsBeyondTheBound(t *testing.T) {
	const n = 300_000
	var b strings.Builder
	b.WriteString(`{"Groups": [`)
	for i := range n {
		fmt.Fprintf(&b, "%d,\n", i)
	}
	b.WriteString("null]}")
	var got target
	faults := decodeFaults(t, b.String(), &got)
	if len(faults.List) != structs.MaxFaults || faults.More != n-structs.MaxFaults || faults.Partly {
		t.Errorf("got %d faults and %d more, partly %v", len(faults.List), faults.More, faults.Partly)
	}
	if got := faults.Error(); !strings.HasSuffix(got, fmt.Sprintf("\nand %d more", n-structs.MaxFaults)) {
		t.Errorf("got %s", got)
	}
}

// TestDecode_PlacesNoFaultOfATypeThatDecodesItself has a value that only the whole type rejects.
func TestDecode_PlacesNoFaultOfATypeThatDecodesItself(t *testing.T) {
	var got struct{ Picky picky }
	faults := decodeFaults(t, `{"Picky": {"A": 1}}`, &got)
	if faults.Partly || faults.Error() != "picky rejects" {
		t.Errorf("got %v, partly %v", faults, faults.Partly)
	}
}

type picky struct{ A int }

func (*picky) UnmarshalJSON([]byte) error { return errors.New("picky rejects") }
