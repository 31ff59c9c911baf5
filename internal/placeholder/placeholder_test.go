package placeholder

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestIn_ReplacesAllTextsOfCopies(t *testing.T) {
	list := []string{"a", "xa"}
	if got := InList(list, strings.ToUpper); !slices.Equal(got, []string{"A", "XA"}) || list[0] != "a" {
		t.Errorf("the list is %q, of %q", got, list)
	}
	texts := map[string]string{"B": "first", "b": "last"}
	one := map[string]string{"B": "LAST"}
	if got := InMap(texts, strings.ToUpper); !maps.Equal(got, one) || len(texts) != 2 {
		t.Errorf("the map is %q, of %q", got, texts)
	}
	tree := map[string]any{"k": "a", "n": 1, "l": []any{"b", map[string]any{"m": "c"}}}
	want := map[string]any{"k": "A", "n": 1, "l": []any{"B", map[string]any{"m": "C"}}}
	if got := InValues(tree, strings.ToUpper); !reflect.DeepEqual(got, want) || tree["k"] != "a" {
		t.Errorf("the tree is %v, of %v", got, tree)
	}
	if InList(nil, nil) != nil || InMap(nil, nil) != nil || InValues(nil, nil) != nil {
		t.Error("nothing became something")
	}
}
