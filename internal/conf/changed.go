package conf

import (
	"reflect"
	"strings"
)

// Changed returns the settings in which two configurations of one struct type differ, as paths of their
// names: a setting of a block has the name of the block before it. Fields without a tag are no settings.
func Changed[T any](a, b *T) []string {
	return changedFields("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func changedFields(prefix string, a, b reflect.Value) []string {
	var changed []string
	for i := range a.NumField() {
		name, options, _ := strings.Cut(a.Type().Field(i).Tag.Get("hcl"), ",")
		if name == "" {
			continue
		}

		// A block that is absent on one side is a nil pointer, and differs as a whole.
		x := indirect(a.Field(i))
		y := indirect(b.Field(i))
		isBlock := strings.Contains(options, "block") &&
			x.Kind() == reflect.Struct && y.Kind() == reflect.Struct
		switch {
		case isBlock:
			changed = append(changed, changedFields(prefix+name+".", x, y)...)
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			changed = append(changed, prefix+name)
		}
	}
	return changed
}

// indirect follows a pointer. A nil pointer stays, so that it differs from an empty block.
func indirect(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem()
	}
	return v
}
