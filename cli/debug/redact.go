package debug

import "strings"

// shownFields is a tree of the allowed fields. A field without a subtree is kept if it is a text, a number, a
// boolean, or a list of these. The name * stands for each key of an object.
type shownFields map[string]shownFields

// parseFields reads a list of paths, separated by white space: ID, Drivers.*.Healthy,
// Update.(MaxParallel,Canary).
func parseFields(list string) shownFields {
	all := shownFields{}
	for _, path := range strings.Fields(list) {
		head, names, grouped := strings.Cut(path, "(")
		if !grouped {
			all.add(path)
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(names, ")"), ",") {
			all.add(head + name)
		}
	}
	return all
}

func (f shownFields) add(path string) {
	at := f
	for name := range strings.SplitSeq(path, ".") {
		if at[name] == nil {
			at[name] = shownFields{}
		}
		at = at[name]
	}
}

// Keep returns what the list allows of a decoded JSON value. Lists stay lists: each element is reduced.
func (f shownFields) Keep(value any) any {
	switch v := value.(type) {
	case []any:
		kept := []any{}
		for _, element := range v {
			kept = append(kept, f.Keep(element))
		}
		return kept
	case map[string]any:
		kept := map[string]any{}
		for name, field := range v {
			allowed, ok := f[name]
			if !ok {
				allowed, ok = f["*"]
			}
			if ok && (len(allowed) > 0 || isPlain(field)) {
				kept[name] = allowed.Keep(field)
			}
		}
		return kept
	}
	if len(f) > 0 {
		return nil // an object was allowed in part, and this is none
	}
	return value
}

// isPlain reports whether a value has no objects.
func isPlain(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return false
	case []any:
		for _, element := range v {
			if !isPlain(element) {
				return false
			}
		}
	}
	return true
}
