package level

import (
	"reflect"
	"strings"
	"testing"

	"berth/structs"
)

type request struct {
	Name   string
	Old    *part
	New    *part `level:"2"`
	Parts  []*part
	Named  map[string]part
	Empty  []string `level:"4"`
	Opaque any
	Inner
	hidden int `level:"4"`
}

// Inner is embedded in request.
type Inner struct {
	Late bool `level:"3"`
}

type part struct {
	Size   int
	Speed  int   `level:"2"`
	Next   *part // a type may contain itself
	Newest int   `level:"5"`
}

// plain has no field with a level.
type plain struct {
	Name string
	Next *plain
}

func TestAbove_ListsTheFieldsThatAreSet(t *testing.T) {
	both := &part{Speed: 1, Newest: 1}
	named := map[string]part{"b": {Speed: 1}, "a": {Newest: 1}}
	for name, c := range map[string]struct {
		value any
		above int
		want  string
	}{
		"nothing":              {nil, 0, ""},
		"a nil request":        {(*request)(nil), 0, ""},
		"nothing is set":       {&request{hidden: 1, Empty: []string{}}, 1, ""},
		"what names no level":  {&request{Name: "x", Old: &part{Size: 1}, Opaque: &part{Speed: 1}}, 0, ""},
		"a field":              {&request{New: &part{Size: 1}}, 1, "New 2"},
		"an empty struct":      {&request{New: &part{}}, 1, "New 2"},
		"of the level itself":  {&request{New: &part{Size: 1}}, 2, ""},
		"behind a pointer":     {&request{Old: &part{Speed: 1}}, 1, "Old.Speed 2"},
		"behind one that is":   {&request{New: &part{Newest: 1}}, 1, "New 2, New.Newest 5"},
		"below another":        {&request{Old: &part{Next: &part{Newest: 1}}}, 1, "Old.Next.Newest 5"},
		"in a list":            {&request{Parts: []*part{nil, {}, {Speed: 1}}}, 1, "Parts.Speed 2"},
		"in a map":             {&request{Named: named}, 1, "Named.Newest 5, Named.Speed 2"},
		"embedded":             {&request{Inner: Inner{Late: true}}, 2, "Late 3"},
		"by value":             {request{Empty: []string{"x"}}, 3, "Empty 4"},
		"a type without any":   {&plain{Name: "x", Next: &plain{}}, 0, ""},
		"all above the first":  {&request{Old: both}, 1, "Old.Speed 2, Old.Newest 5"},
		"only those above two": {&request{Old: both}, 2, "Old.Newest 5"},
	} {
		var got []string
		for _, p := range Above(c.value, c.above) {
			got = append(got, p.Path+" "+string(rune('0'+p.Level)))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: got %q, want %q", name, text, c.want)
		}
	}
}

func TestAbove_HasTheValues(t *testing.T) {
	got := Above(&request{Old: &part{Speed: 7}}, 1)
	if want := []Part{{"Old.Speed", 2, 7}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// dropping is a request of a caller that does not know the levels.
type dropping struct {
	Name  string
	Proof *part `level:"2" older:"drop"`
	Count int   `level:"3" older:"drop"`
	Kept  bool  `level:"2"`
	Late  `level:"2" older:"drop"`
}

// Late is embedded in dropping.
type Late struct {
	Epoch int `level:"2" older:"drop"`
}

func TestFit_EmptiesTheFieldsThatMayBeDropped(t *testing.T) {
	for least, want := range map[int]dropping{
		1: {Name: "x"},
		2: {Name: "x", Proof: &part{Speed: 1}, Late: Late{Epoch: 7}},
		3: {Name: "x", Proof: &part{Speed: 1}, Late: Late{Epoch: 7}, Count: 1},
	} {
		got := &dropping{Name: "x", Proof: &part{Speed: 1}, Count: 1, Late: Late{Epoch: 7}}
		err := Fit(got, least)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("beside level %d: got %+v, %v; want %+v", least, got, err, want)
		}
	}

	kept := &dropping{Proof: &part{}, Kept: true}
	err := Fit(kept, 1)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "Kept needs level 2") {
		t.Errorf("a field that may not be dropped: %v", err)
	}
	err = Check(&dropping{Count: 1}, 1)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("Check of a field that Fit drops: %v", err)
	}
}

func TestCheck_NamesTheNewestField(t *testing.T) {
	req := &request{New: &part{Newest: 1}}
	err := Check(req, 1)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "New.Newest needs level 5, and a server of the cluster has level 1") {
		t.Errorf("beside an older server: %v", err)
	}
	if err := Check(req, 5); err != nil {
		t.Errorf("all servers know it: %v", err)
	}
	if err := Check(&request{Name: "x"}, 1); err != nil {
		t.Errorf("a request without newer fields: %v", err)
	}
}

func TestHighest_IsThatOfTheType(t *testing.T) {
	for want, v := range map[int]any{5: &request{}, 3: Inner{}, 0: &plain{}} {
		if got := Highest(v); got != want {
			t.Errorf("%T: got %d, want %d", v, got, want)
		}
	}
}
