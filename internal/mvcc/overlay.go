package mvcc

import (
	"bytes"
	"slices"
	"sort"
)

// overlay holds the changes of a batch that are not in the trees yet. Writers see them in place of the trees.
// So a row that many entries of a batch change is written once, an entry that fails has not touched the
// trees, and no read between two writes makes a tree copy its nodes.
type overlay struct {
	byPath  [][]entry // by the order of the path, sorted by key
	changed []int     // the orders of the paths with entries, and of some without; several times perhaps
	size    int       // entries of all paths
}

func newOverlay(paths int) overlay {
	return overlay{byPath: make([][]entry, paths)}
}

// entry is the cell at one key.
type entry struct {
	pathKey
	cell
	tree *slot // in an overlay: the slot that the tree has at the key
}

// added returns by how much an entry of a table's own keys changes the number of rows in the trees.
func (e *entry) added() int {
	switch {
	case e.tree == nil && e.slot != nil:
		return 1
	case e.tree != nil && e.slot == nil:
		return -1
	}
	return 0
}

// maxOverlay is the number of changes above which a batch writes its overlay into the trees.
const maxOverlay = 512

func (o *overlay) find(at pathKey) (int, bool) {
	entries := o.byPath[at.path.order]
	n := len(entries)
	if n > 0 && bytes.Compare(at.key, entries[n-1].key) > 0 { // as often as keys come in their order
		return n, false
	}
	return sort.Find(len(entries), func(i int) int {
		return bytes.Compare(at.key, entries[i].key)
	})
}

// at returns the cell at a key and whether the overlay has one.
func (o *overlay) at(at pathKey) (c cell, changed bool) {
	i, found := o.find(at)
	if !found {
		return cell{}, false
	}
	return o.byPath[at.path.order][i].cell, true
}

// setEntry sets an entry. It reports whether the overlay had one at the key; then it keeps its facts about
// the tree.
func (o *overlay) setEntry(e entry) bool {
	entries := &o.byPath[e.path.order]
	i, found := o.find(e.pathKey)
	if found {
		(*entries)[i].cell = e.cell
		return true
	}
	if len(*entries) == 0 {
		o.changed = append(o.changed, e.path.order)
	}
	*entries = slices.Insert(*entries, i, e)
	o.size++
	return false
}

func (o *overlay) drop(at pathKey) {
	entries := &o.byPath[at.path.order]
	i, found := o.find(at)
	if found {
		*entries = slices.Delete(*entries, i, i+1)
		o.size--
	}
}

// from returns the entries of a path from a key on whose keys begin with prefix, in order. They are valid
// until the next change.
func (o *overlay) from(at pathKey, prefix Key) []entry {
	i, _ := o.find(at)
	rest := o.byPath[at.path.order][i:]
	n := sort.Search(len(rest), func(n int) bool {
		return !bytes.HasPrefix(rest[n].key, prefix)
	})
	return rest[:n:n]
}

// hasPath reports whether the overlay has a change of a path.
func (o *overlay) hasPath(p *path) bool {
	return len(o.byPath[p.order]) > 0
}

// changedPaths returns the orders of the paths that may have entries, ascending. It is valid until the next
// change.
func (o *overlay) changedPaths() []int {
	slices.Sort(o.changed)
	o.changed = slices.Compact(o.changed)
	return o.changed
}

// empty removes all entries and keeps the memory, but no more than maxSpare entries of a path.
func (o *overlay) empty() {
	for _, n := range o.changed {
		o.byPath[n] = emptied(o.byPath[n], maxSpare)
	}
	o.changed = o.changed[:0]
	o.size = 0
}
