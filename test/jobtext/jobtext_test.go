package jobtext

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/structs"
)

// TestFields_AreThoseOfAJob fails at a field without a line in the list, and at a line without a field.
func TestFields_AreThoseOfAJob(t *testing.T) {
	listed := map[string]int{}
	for _, f := range Listed() {
		listed[f.Key()]++
		if f.By != Literal && (f.Block == "" || f.Argument == "") {
			t.Errorf("%s: the list has no name of the argument", f.Key())
		}
	}
	for _, key := range Of(reflect.TypeFor[structs.Job]()) {
		if listed[key] != 1 {
			t.Errorf("%s: %d lines say whether it takes placeholders, want 1", key, listed[key])
		}
		delete(listed, key)
	}
	for key := range listed {
		t.Errorf("%s: there is no such field", key)
	}
}

// TestFields_AreHeldByTheTestsOfTheirPackages fails at a package whose tests do not call Check.
func TestFields_AreHeldByTheTestsOfTheirPackages(t *testing.T) {
	packages := map[string]bool{}
	for _, f := range Listed() {
		if f.By != Literal {
			packages[f.By] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		dir := filepath.Join("..", "..", filepath.FromSlash(name))
		file, err := os.ReadFile(filepath.Join(dir, "placeholders_test.go"))
		if err != nil || !strings.Contains(string(file), `jobtext.Check(t, "`+name+`"`) {
			t.Errorf("%s: placeholders_test.go does not call Check (%v)", name, err)
		}
	}
}

func TestReplaced_LooksIntoEachText(t *testing.T) {
	type texts struct {
		Text  string
		List  []string
		Map   map[string]string
		Lists map[string][]string
		Any   map[string]any
		Not   int
	}
	filled := Fill(&texts{})
	for key, replaced := range Replaced(filled) {
		if replaced {
			t.Errorf("%s is replaced before the replacement", key)
		}
	}
	other := &texts{
		Text:  Value,
		List:  []string{Value},
		Map:   map[string]string{Value: Value},
		Lists: map[string][]string{Value: {Value}},
		Any:   map[string]any{Value: Value},
	}
	got := Replaced(other)
	if len(got) != 5 || slices.Contains(slices.Collect(maps.Values(got)), false) {
		t.Errorf("after it: %v", got)
	}
	other.Map = map[string]string{Placeholder: Value}
	if Replaced(other)["texts.Map"] {
		t.Error("a map with a placeholder as its key counts as replaced")
	}
}
