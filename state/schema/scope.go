package schema

import (
	"iter"

	"berth/internal/mvcc"
	"berth/structs"
)

// NamespaceScope returns the scope of the keys of a namespace whose next part begins with prefix. All
// namespaces have the scope of all keys.
func NamespaceScope(ns, prefix string) mvcc.Key {
	if ns == structs.AllNamespaces {
		return mvcc.KeyOf()
	}
	return mvcc.KeyPrefix(ns, prefix)
}

// Filter yields the rows that match.
func Filter[T any](rows iter.Seq[*T], matches func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for r := range rows {
			if matches(r) && !yield(r) {
				return
			}
		}
	}
}

// InNamespace reports whether a row of one namespace belongs to a list of the other. The list of all
// namespaces has every row.
func InNamespace(row, list string) bool {
	return list == structs.AllNamespaces || row == list
}
