package artifacthook

import (
	"reflect"
	"strings"
	"testing"

	"berth/structs"
)

// TestExpand_ReplacesEveryText fills each field that has texts. A field that expand leaves out fails it.
func TestExpand_ReplacesEveryText(t *testing.T) {
	spec := &structs.TaskArtifact{}
	fields := reflect.ValueOf(spec).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Interface().(type) {
		case string:
			f.SetString("${x}")
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{"${x}": "${x}"}))
		case bool:
		default:
			t.Errorf("%s: the test knows no value of its type", fields.Type().Field(i).Name)
		}
	}
	got := expand(spec, func(s string) string { return strings.ReplaceAll(s, "${x}", "value") })
	fields = reflect.ValueOf(got).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		switch v := fields.Field(i).Interface().(type) {
		case string:
			if v != "value" {
				t.Errorf("%s is %q", name, v)
			}
		case map[string]string:
			if len(v) != 1 || v["value"] != "value" {
				t.Errorf("%s is %q", name, v)
			}
		}
	}
}
