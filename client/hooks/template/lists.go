package template

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth/internal/gotext"
	"berth/structs"
)

var listFunctions = gotext.Functions{
	"in":                   in,
	"contains":             func(v, list any) (bool, error) { return in(list, v) },
	"containsAll":          containsSome(true, true),
	"containsAny":          containsSome(false, false),
	"containsNone":         containsSome(true, false),
	"containsNotAll":       containsSome(false, true),
	"explodeMap":           explodeMap,
	"mergeMap":             mergeWith(false),
	"mergeMapWithOverride": mergeWith(true),
}

// in reports whether a list has a value, or a text another.
func in(list, v any) (bool, error) {
	if text, ok := list.(string); ok {
		part, ok := v.(string)
		return ok && strings.Contains(text, part), nil
	}
	all, err := items(list)
	return slices.ContainsFunc(all, func(x any) bool { return equal(x, v) }), err
}

// equal compares texts, booleans and numbers; whole numbers of all types are comparable.
func equal(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case !x.IsValid() || !y.IsValid():
		return false
	case x.CanInt() && y.CanInt():
		return x.Int() == y.Int()
	case x.CanUint() && y.CanUint():
		return x.Uint() == y.Uint()
	case x.CanFloat() && y.CanFloat():
		return x.Float() == y.Float()
	case x.Kind() == reflect.String || x.Kind() == reflect.Bool:
		return x.Kind() == y.Kind() && x.Equal(y.Convert(x.Type()))
	}
	return false
}

// containsSome returns a function that looks for each value of a list in another one. It returns the opposite
// of atEnd at the first value that is found, or for inverted at the first that is not.
func containsSome(atEnd, inverted bool) func(values, list any) (bool, error) {
	return func(values, list any) (bool, error) {
		all, err := items(values)
		if err != nil {
			return false, err
		}
		for _, v := range all {
			found, err := in(list, v)
			if err != nil {
				return false, err
			}
			if found != inverted {
				return !atEnd, nil
			}
		}
		return atEnd, nil
	}
}

// explodeMap makes a map of maps from one with keys such as a/b.
func explodeMap(flat map[string]any) (map[string]any, error) {
	out := map[string]any{}

	// In this order a key comes before the keys below it, which then find that it has a value.
	for _, key := range slices.Sorted(maps.Keys(flat)) {
		if strings.Count(key, "/") >= maxLevels {
			return nil, beyond("a key of explodeMap has more than %d levels", maxLevels)
		}

		at := out
		names := strings.Split(key, "/")
		for _, name := range names[:len(names)-1] {
			if at[name] == nil {
				at[name] = map[string]any{}
			}

			next, ok := at[name].(map[string]any)
			if !ok {
				return nil, structs.Invalidf("explodeMap: %q has a value, and other keys below it",
					structs.Cut(name, structs.MaxQuoted))
			}

			at = next
		}

		// A key with a slash at its end is a directory of Consul.
		if last := names[len(names)-1]; last != "" {
			at[last] = flat[key]
		}
	}
	return out, nil
}

func mergeWith(override bool) func(into, from map[string]any) (map[string]any, error) {
	return func(into, from map[string]any) (map[string]any, error) {
		return merge(into, from, override), nil
	}
}

// merge returns a map with the entries of both, maps within them merged likewise. Where both have a value
// that is not empty, override selects from's.
func merge(into, from map[string]any, override bool) map[string]any {
	// Other texts may share the arguments, so these stay as they are.
	out := maps.Clone(into)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range from {
		old, isMap := out[k].(map[string]any)
		next, bothMaps := v.(map[string]any)
		switch {
		case isMap && bothMaps:
			out[k] = merge(old, next, override)
		case isEmpty(out[k]) || override && !isEmpty(v):
			out[k] = v
		}
	}
	return out
}

func isEmpty(v any) bool { return v == nil || reflect.ValueOf(v).IsZero() }
