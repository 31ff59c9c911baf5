package mvcc

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
)

// overlay holds the changes of a batch that are not in the trees yet, sorted by path and key. Writers see
// them in place of the trees. So a row that many entries of a batch change is written once, an entry that
// fails has not touched the trees, and no read between two writes makes a tree copy its nodes.
type overlay struct{ entries []entry }

// entry is the cell at one key.
type entry struct {
	pathKey
	cell
	tree *slot // in an overlay: the slot that the tree has at the key
}

// maxOverlay is the number of changes above which a batch writes its overlay into the trees.
const maxOverlay = 256

func (o *overlay) find(at pathKey) (int, bool) {
	compare := func(i int) int {
		e := &o.entries[i]
		if e.path != at.path {
			return cmp.Compare(at.path.order, e.path.order)
		}
		return bytes.Compare(at.key, e.key)
	}
	return sort.Find(len(o.entries), compare)
}

// at returns the cell at a key and whether the overlay has one.
func (o *overlay) at(at pathKey) (c cell, changed bool) {
	i, found := o.find(at)
	if !found {
		return cell{}, false
	}
	return o.entries[i].cell, true
}

// setEntry sets an entry. It reports whether the overlay had one at the key; then it keeps its facts about
// the tree.
func (o *overlay) setEntry(e entry) bool {
	i, found := o.find(e.pathKey)
	if found {
		o.entries[i].cell = e.cell
		return true
	}
	o.entries = slices.Insert(o.entries, i, e)
	return false
}

func (o *overlay) drop(at pathKey) {
	i, found := o.find(at)
	if found {
		o.entries = slices.Delete(o.entries, i, i+1)
	}
}

// from returns the entries of a path from a key on whose keys begin with prefix, in order. They are valid
// until the next change.
func (o *overlay) from(at pathKey, prefix Key) []entry {
	i, _ := o.find(at)
	rest := o.entries[i:]
	n := sort.Search(len(rest), func(n int) bool {
		return rest[n].path != at.path ||
			!bytes.HasPrefix(rest[n].key, prefix)
	})
	return rest[:n:n]
}

// hasPath reports whether the overlay has a change of a path.
func (o *overlay) hasPath(p *path) bool {
	return len(o.from(pathKey{path: p}, nil)) > 0
}
