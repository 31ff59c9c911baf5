package state

import (
	"bytes"
	"slices"
	"sort"
)

// pending is what a batch has changed and not yet written into the tree: by key, each once. Writers see it in
// place of what is in the tree. So a row that many entries of a batch change is written once, an entry that
// fails has touched nothing, and no read in between costs the tree its nodes that may be changed in place.
type pending struct{ entries []entry }

// entry is what is, or is to be, at a key.
type entry struct {
	key key
	cell
	tree *slot // of what is pending: what the tree has there
}

// mostPending is how many are kept before they are written into the tree.
const mostPending = 256

func (p *pending) find(k key) (int, bool) {
	low, high := 0, len(p.entries)
	for low < high {
		middle := (low + high) / 2
		switch c := bytes.Compare(p.entries[middle].key, k); {
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

// at returns what is to be at a key and whether anything is pending there.
func (p *pending) at(k key) (c cell, changed bool) {
	i, found := p.find(k)
	if !found {
		return cell{}, false
	}
	return p.entries[i].cell, true
}

// put returns whether something was pending there already; then what the tree has there is known.
func (p *pending) put(e entry) bool {
	i, found := p.find(e.key)
	if found {
		p.entries[i].cell = e.cell
		return true
	}
	p.entries = slices.Insert(p.entries, i, e)
	return false
}

func (p *pending) drop(k key) {
	if i, found := p.find(k); found {
		p.entries = slices.Delete(p.entries, i, i+1)
	}
}

// under is what is pending under a beginning, in order. It holds until the next change.
func (p *pending) under(k key) []entry {
	i, _ := p.find(k)
	return p.beginning(i, k)
}

// onwards is what is pending in the index of k and not below k, in order. It holds until the next change.
func (p *pending) onwards(k key) []entry {
	i, _ := p.find(k)
	return p.beginning(i, k[:1])
}

// beginning is, of the entries from the i-th on, those whose keys begin so: they are the first.
func (p *pending) beginning(i int, k key) []entry {
	rest := p.entries[i:]
	if len(rest) == 0 || !bytes.HasPrefix(rest[0].key, k) {
		return nil
	}
	n := sort.Search(len(rest), func(n int) bool { return !bytes.HasPrefix(rest[n].key, k) })
	return rest[:n:n]
}
