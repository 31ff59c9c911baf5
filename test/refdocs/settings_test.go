package refdocs

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"berth/client/config"
)

// liveSettings returns the settings and blocks of a node that a running agent takes over: it changes each of
// them in a configuration and looks for an effect.
func liveSettings() (names []string) {
	old := reflect.ValueOf(config.DefaultConfig()).Elem()
	for _, f := range reflect.VisibleFields(old.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		if name == "" || f.Anonymous {
			continue
		}
		next := config.DefaultConfig()
		change(reflect.ValueOf(next).Elem().FieldByIndex(f.Index))
		now := reflect.ValueOf(config.DefaultConfig().WithLive(next)).Elem()
		if !reflect.DeepEqual(now.FieldByIndex(f.Index).Interface(), old.FieldByIndex(f.Index).Interface()) {
			names = append(names, name)
		}
	}
	return names
}

// TestOperations_ListsEveryLiveSetting holds the table of the settings that change at once against the node
// agent.
func TestOperations_ListsEveryLiveSetting(t *testing.T) {
	page := readDoc(t, "docs/operations/configure.md")
	_, section, _ := strings.Cut(page, "## Changing settings of a running agent")
	section, _, _ = strings.Cut(section, "\n#")
	live := liveSettings()
	if len(live) == 0 {
		t.Error("no setting is live")
	}
	for _, name := range live {
		listed := regexp.MustCompile("(?m)^\\| `client \\{[^|]*\\b" + name + "\\b[^|]*` \\|")
		if !listed.MatchString(section) {
			t.Errorf("the table of docs/operations/configure.md lacks the live setting %s", name)
		}
	}
}

// TestSettings_SayWhichAreLive holds the marks of docs/reference/settings.md against the node agent.
func TestSettings_SayWhichAreLive(t *testing.T) {
	const mark = "*live*"
	marked := map[string]bool{}
	for _, b := range allSettingTexts() {
		marked[b.Block] = strings.Contains(b.Intro, mark)
		for _, s := range b.Settings {
			marked[strings.TrimPrefix(b.Block+"."+s.Name, ".")] = strings.Contains(s.Text, mark)
		}
	}
	want := map[string]bool{"log_level": true} // the agent's own, see its tests of a reload
	for _, name := range liveSettings() {
		want["client."+name] = true
	}
	for name, is := range marked {
		if is != want[name] {
			t.Errorf("%s: marked as live is %t, expected %t", name, is, want[name])
		}
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
