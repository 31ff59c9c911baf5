package refdocs

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"berth/agent"
)

// TestOperations_ExplainsEverySetting holds docs/operations.md against the configuration.
func TestOperations_ExplainsEverySetting(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.FieldsFunc(string(text), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_')
	})
	known := map[string]bool{}
	for _, w := range words {
		known[w] = true
	}
	for _, name := range settings(reflect.TypeFor[agent.Config]()) {
		if !known[name] {
			t.Errorf("docs/operations.md does not explain %s", name)
		}
	}
}

func settings(typ reflect.Type) (names []string) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		if name != "" {
			names = append(names, name)
			names = append(names, settings(f.Type)...)
		}
	}
	return names
}
