package mvcc

import (
	"bytes"
	"slices"
	"sort"
)

// overlay holds the changes of a batch that are not in the tree yet, sorted by key. Writers see them in place
// of the tree. So a row that many entries of a batch change is written once, an entry that fails has not
// touched the tree, and no read between two writes makes the tree copy its nodes.
type overlay struct{ entries []entry }

// entry is the cell at one key.
type entry struct {
	key Key
	cell
	tree *slot // in an overlay: the slot that the tree has at the key
}

// maxOverlay is the number of changes above which a batch writes its overlay into the tree.
const maxOverlay = 256

func (o *overlay) find(k Key) (int, bool) {
	low, high := 0, len(o.entries)
	for low < high {
		middle := (low + high) / 2
		switch c := bytes.Compare(o.entries[middle].key, k); {
		case c == 0:
			return middle, true
		case c < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, false
}

// at returns the cell at a key and whether the overlay has one.
func (o *overlay) at(k Key) (c cell, changed bool) {
	i, found := o.find(k)
	if !found {
		return cell{}, false
	}
	return o.entries[i].cell, true
}

// put sets an entry. It reports whether the overlay had one at the key; then it keeps what it knows of the
// tree.
func (o *overlay) put(e entry) bool {
	i, found := o.find(e.key)
	if found {
		o.entries[i].cell = e.cell
		return true
	}
	o.entries = slices.Insert(o.entries, i, e)
	return false
}

func (o *overlay) drop(k Key) {
	if i, found := o.find(k); found {
		o.entries = slices.Delete(o.entries, i, i+1)
	}
}

// prefix returns the entries whose key begins with k, in order. They are valid until the next change.
func (o *overlay) prefix(k Key) []entry {
	i, _ := o.find(k)
	return o.leading(i, k)
}

// seek returns the entries in the index of k whose key is not below k, in order. They are valid until the
// next change.
func (o *overlay) seek(k Key) []entry {
	i, _ := o.find(k)
	return o.leading(i, k[:1])
}

// leading returns the first of the entries from the i-th on, as long as their keys begin with k.
func (o *overlay) leading(i int, k Key) []entry {
	rest := o.entries[i:]
	if len(rest) == 0 || !bytes.HasPrefix(rest[0].key, k) {
		return nil
	}
	n := sort.Search(len(rest), func(n int) bool { return !bytes.HasPrefix(rest[n].key, k) })
	return rest[:n:n]
}
