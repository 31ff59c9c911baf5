// Package placeholder replaces the placeholders in lists and maps of a job by their values. It is small
// because tasks, artifacts and the service mesh replace them alike.
package placeholder

import (
	"maps"
	"slices"
)

// InList returns a list with each text replaced, nil for an empty one.
func InList(texts []string, replace func(string) string) []string {
	var out []string
	for _, text := range texts {
		out = append(out, replace(text))
	}
	return out
}

// InMap returns a map with each key and value replaced, nil for an empty one. Of keys that become equal, the
// last one in the order of m's keys wins.
func InMap(m map[string]string, replace func(string) string) map[string]string {
	var out map[string]string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if out == nil {
			out = map[string]string{}
		}
		out[replace(key)] = replace(m[key])
	}
	return out
}

// InValues returns a copy of a tree of maps and lists with each text replaced, but for keys. It is nil for
// nil.
func InValues(m map[string]any, replace func(string) string) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for key, x := range m {
		out[key] = value(x, replace)
	}
	return out
}

func value(x any, replace func(string) string) any {
	switch x := x.(type) {
	case string:
		return replace(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = value(x[i], replace)
		}
		return out
	case map[string]any:
		return InValues(x, replace)
	}

	return x
}
