package state

import (
	"iter"

	"berth/internal/mvcc"
	"berth/structs"
)

// namespaceScope returns the scope of the keys of a namespace whose next part begins with prefix. All
// namespaces have the scope of all keys.
func namespaceScope(ns, prefix string) Key {
	if ns == structs.AllNamespaces {
		return mvcc.KeyOf()
	}
	return mvcc.KeyPrefix(ns, prefix)
}

// filter yields the rows that match.
func filter[T any](rows iter.Seq[*T], matches func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for r := range rows {
			if matches(r) && !yield(r) {
				return
			}
		}
	}
}

// inNamespace reports whether a row of one namespace belongs to a list of the other. The list of all
// namespaces has every row.
func inNamespace(row, list string) bool {
	return list == structs.AllNamespaces || row == list
}
