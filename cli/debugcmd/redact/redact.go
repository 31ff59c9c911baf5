// Package redact keeps the fields of JSON values that a list allows, and drops all others. A new field of an
// answer is dropped until somebody allows it, so no guess about names decides what is secret.
package redact

import "strings"

// Fields is a tree of the allowed fields. A field without a subtree is kept if it is a text, a number, a
// boolean, or a list of these. The name * stands for each key of an object.
type Fields map[string]Fields

// Parse reads a list of paths, separated by white space: ID, Drivers.*.Healthy, Update.(MaxParallel,Canary).
func Parse(list string) Fields {
	all := Fields{}
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

func (f Fields) add(path string) {
	at := f
	for name := range strings.SplitSeq(path, ".") {
		if at[name] == nil {
			at[name] = Fields{}
		}
		at = at[name]
	}
}

// Keep returns what the list allows of a decoded JSON value. Lists stay lists: each element is reduced.
func (f Fields) Keep(value any) any {
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
