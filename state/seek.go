package state

import (
	"bytes"
	"iter"
	"slices"

	"berth/structs"
)

// Lists are read a page at a time, each page beginning with the key at which the one before it ended: the
// rows before that are not looked at. A begin that is nil is the beginning of the list.

// scanFrom is scan, beginning with the first row whose key is not below begin. It is for the table's own
// key.
func (t *table[T]) scanFrom(tx *Read, scope, begin key) iter.Seq[*T] {
	if bytes.Compare(begin, scope) <= 0 {
		return t.scan(tx, scope)
	}
	return func(yield func(*T) bool) {
		t.under(tx, scope) // a waiting reader watches the whole range
		rows := t.onwards(tx, begin)
		if tx.pending == nil {
			rows.ends = false // it is told here, from the same key
		}
		rows.over = slices.Clone(rows.over)
		for r, last := rows.Next(), key(nil); r != nil; r = rows.Next() {
			k := t.whole(r)
			behind := bytes.Compare(k, begin) < 0 || bytes.Compare(k, last) <= 0
			if behind || !bytes.HasPrefix(k, scope) || !yield(r) {
				return
			}
			last = k
		}
	}
}

// within is what keys of a namespace whose next part begins so begin with; of all namespaces, anything.
func within(ns, prefix string) key {
	if ns == structs.AllNamespaces {
		return keyOf()
	}
	k := keyOf(ns, prefix)
	return k[:len(k)-1]
}

func beginning(prefix string) key {
	k := keyOf(prefix)
	return k[:len(k)-1]
}

// VolumesFrom is Volumes from a namespace and ID on.
func VolumesFrom(tx *Read, ns, prefix string, begin []string) iter.Seq[*structs.CSIVolume] {
	if len(begin) == 0 {
		return Volumes(tx, ns, prefix)
	}
	rows := volumes.scanFrom(tx, within(ns, prefix), keyOf(begin...))
	return withPrefix(rows, prefix, func(v *structs.CSIVolume) string { return v.ID })
}

// JobsFrom is Jobs from a namespace and ID on.
func JobsFrom(tx *Read, ns, prefix string, begin []string) iter.Seq[*structs.Job] {
	if len(begin) == 0 {
		return Jobs(tx, ns, prefix)
	}
	rows := jobs.scanFrom(tx, within(ns, prefix), keyOf(begin...))
	return withPrefix(rows, prefix, func(j *structs.Job) string { return j.ID })
}

// NodesFrom is NodesByPrefix from an ID on.
func NodesFrom(tx *Read, prefix string, begin []string) iter.Seq[*structs.Node] {
	if len(begin) == 0 {
		return NodesByPrefix(tx, prefix)
	}
	return nodes.scanFrom(tx, beginning(prefix), keyOf(begin...))
}

// AllocsFrom is AllocsByPrefix from an ID on.
func AllocsFrom(tx *Read, ns, prefix string, begin []string) iter.Seq[*structs.Allocation] {
	if len(begin) == 0 {
		return AllocsByPrefix(tx, ns, prefix)
	}
	return inNamespace(allocs.scanFrom(tx, beginning(prefix), keyOf(begin...)), ns, func(a *structs.Allocation) string { return a.Namespace })
}

// EvalsFrom is Evals from an ID on.
func EvalsFrom(tx *Read, ns, prefix string, begin []string) iter.Seq[*structs.Evaluation] {
	if len(begin) == 0 {
		return Evals(tx, ns, prefix)
	}
	return inNamespace(evals.scanFrom(tx, beginning(prefix), keyOf(begin...)), ns, func(e *structs.Evaluation) string { return e.Namespace })
}
