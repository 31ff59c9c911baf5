package match

import "berth/structs"

// ValueCount counts the live allocations of a group, or of the whole job, by the value that an attribute has
// on their nodes. It counts the plan's placements, but not its stops. Allocations on nodes without the
// attribute are not counted.
type ValueCount struct {
	Group string // "" for the whole job
	Of    target
	Rest  func(string) string // merges values; nil: none

	Counted bool
	Counts  map[string]int // by value, above 0
	Values  map[int]int    // the number of values with a count
	Least   int            // the least count, 0 if there are no counts
	Most    int
}

// On returns the value of a node.
func (c *ValueCount) On(n *structs.Node) value {
	if n == nil {
		return value{}
	}
	v := c.Of(n)
	if v.Set && c.Rest != nil {
		v.Text = c.Rest(v.Text)
	}
	return v
}

// Add changes the count of a value by 1 or -1.
func (c *ValueCount) Add(text string, by int) {
	before := c.Counts[text]
	after := before + by
	c.Counts[text] = after

	// A value without allocations is no value in use: it must not be the least one.
	if after == 0 {
		delete(c.Counts, text)
	}

	// Least and Most are kept by the numbers of values with each count, without a pass over all values.
	c.move(before, -1)
	c.move(after, 1)
	c.Least = min(c.Least, before, after)
	c.Most = max(c.Most, before, after)
	for c.Least < c.Most && c.Values[c.Least] == 0 {
		c.Least++
	}

	for c.Most > 0 && c.Values[c.Most] == 0 {
		c.Most--
	}

	c.Least = min(c.Least, c.Most)
}

// move changes the number of values that have a count. Values without allocations are not counted.
func (c *ValueCount) move(count, by int) {
	if count > 0 {
		c.Values[count] += by
	}
}
