package conf_test

import (
	"errors"
	"testing"

	"berth/internal/conf"
	"berth/structs"
)

type located struct {
	Level  string       `hcl:"level"`
	Levels string       `hcl:"levels"`
	Inner  locatedInner `hcl:"inner,block"`
}

type locatedInner struct {
	N     int               `hcl:"n"`
	Meta  map[string]string `hcl:"meta"`
	Items []*locatedItem    `hcl:"item,block"`
}

type locatedItem struct {
	Name string `hcl:",label"`
	Path string `hcl:"path"`
}

func TestPositions_LocateFaults(t *testing.T) {
	positions := conf.Positions{}
	var c located
	for file, text := range map[string]string{
		"a.hcl":  "level = \"x\"\ninner {\n  n = 1\n  item \"a\" {\n    path = \"p\"\n  }\n  item \"b\" {}\n}\n",
		"b.json": "{\n  \"levels\": \"y\"\n}\n",
	} {
		if err := conf.Decode(file, []byte(text), &c, positions); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"level is bad":           "a.hcl:1,1: level is bad",
		"levels: bad":            "b.json:2,3: levels: bad",
		"level":                  "a.hcl:1,1: level",
		"level_of":               "level_of",
		"inner.n: 1 is bad":      "a.hcl:3,3: inner.n: 1 is bad",
		"inner.meta: absent":     "a.hcl:2,1: inner.meta: absent",
		`inner.item "a": bad`:    `a.hcl:4,3: inner.item "a": bad`,
		`inner.item "b": bad`:    `a.hcl:7,3: inner.item "b": bad`,
		"elsewhere\ninner.n bad": "elsewhere\na.hcl:3,3: inner.n bad",
	} {
		err := positions.Locate(structs.Invalidf("%s", text))
		if !structs.IsKind(err, structs.KindInvalid) || err.Error() != want {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	other := errors.New("level is bad")
	if got := positions.Locate(other); got != other {
		t.Errorf("an error of another kind became %v", got)
	}
	if got := positions.Locate(nil); got != nil {
		t.Errorf("no error became %v", got)
	}
	again := []byte("\n\nlevel = \"z\"\n")
	if err := conf.Decode("c.hcl", again, &c, positions); err != nil {
		t.Fatal(err)
	}
	if got := positions.Locate(structs.Invalidf("level is bad")); got.Error() != "c.hcl:3,1: level is bad" {
		t.Errorf("a later file overrides a setting: got %v", got)
	}
}
