package refdocs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"berth/agent"
	"berth/client/config"
)

// operations returns all pages of docs/operations, one behind the other.
func operations(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "docs", "operations", "*.md"))
	if err != nil || len(names) == 0 {
		t.Fatalf("docs/operations has %d pages, %v", len(names), err)
	}

	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestOperations_ExplainsEverySetting holds docs/operations against the configuration.
func TestOperations_ExplainsEverySetting(t *testing.T) {
	words := strings.FieldsFunc(operations(t), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_')
	})
	known := map[string]bool{}
	for _, w := range words {
		known[w] = true
	}
	for _, name := range settings(reflect.TypeFor[agent.Config]()) {
		if !known[name] {
			t.Errorf("docs/operations does not explain %s", name)
		}
	}
}

// TestOperations_ListsEveryLiveSetting holds the table of the settings that change at once against the node
// agent: it changes each setting of a configuration and looks for those that a running agent takes over.
func TestOperations_ListsEveryLiveSetting(t *testing.T) {
	page := readDoc(t, "docs/operations/configure.md")
	_, section, _ := strings.Cut(page, "## Changing settings of a running agent")
	section, _, _ = strings.Cut(section, "\n#")
	old := reflect.ValueOf(config.DefaultConfig()).Elem()
	found := 0
	for _, f := range reflect.VisibleFields(old.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		if name == "" || f.Anonymous {
			continue
		}
		next := config.DefaultConfig()
		change(reflect.ValueOf(next).Elem().FieldByIndex(f.Index))
		now := reflect.ValueOf(config.DefaultConfig().WithLive(next)).Elem()
		if reflect.DeepEqual(now.FieldByIndex(f.Index).Interface(), old.FieldByIndex(f.Index).Interface()) {
			continue
		}
		found++
		listed := regexp.MustCompile("(?m)^\\| `client \\{[^|]*\\b" + name + "\\b[^|]*` \\|")
		if !listed.MatchString(section) {
			t.Errorf("the table of docs/operations/configure.md lacks the live setting %s", name)
		}
	}
	if found == 0 {
		t.Error("no setting is live")
	}
}

// change gives a setting another value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), v.Len()+1, v.Len()+1))
	case reflect.Map:
		made := reflect.MakeMap(v.Type())
		made.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
		v.Set(made)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				change(v.Field(i))
			}
		}
	default: // a number, or of no setting
		if v.CanInt() {
			v.SetInt(v.Int() + 1)
		} else if v.CanUint() {
			v.SetUint(v.Uint() + 1)
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
