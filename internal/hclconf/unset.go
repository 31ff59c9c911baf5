package hclconf

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Unset has the arguments and blocks for which a fault of a file leaves a struct without a value: another
// fault may be due to their absence. A nil one notes none, and has none.
type Unset struct {
	arguments map[unsetItem]bool
	blocks    map[unsetItem]bool
	kinds     map[string]bool // of blocks, wherever they are
	bodies    map[hcl.Range]bool
}

// unsetItem is a name in a body, which its range identifies.
type unsetItem struct {
	body hcl.Range
	name string
}

// NewUnset returns an Unset that notes faults.
func NewUnset() *Unset {
	return &Unset{
		arguments: map[unsetItem]bool{},
		blocks:    map[unsetItem]bool{},
		kinds:     map[string]bool{},
		bodies:    map[hcl.Range]bool{},
	}
}

// AddArgument notes an argument of a body.
func (u *Unset) AddArgument(body hcl.Body, name string) {
	if u != nil {
		at := bodyRange(body)
		u.arguments[unsetItem{at, name}] = true
		u.bodies[at] = true
	}
}

// AddBlock notes a block of a kind in a body.
func (u *Unset) AddBlock(body hcl.Body, kind string) {
	if u != nil {
		at := bodyRange(body)
		u.blocks[unsetItem{at, kind}] = true
		u.kinds[kind] = true
		u.bodies[at] = true
	}
}

// HasArgument reports whether an argument is unset in a body.
func (u *Unset) HasArgument(body hcl.Body, name string) bool {
	return u != nil && u.arguments[unsetItem{bodyRange(body), name}]
}

// Has reports whether an argument of this name, or a block of this kind, is unset in a body.
func (u *Unset) Has(body hcl.Body, name string) bool {
	return u.HasArgument(body, name) || u != nil && u.blocks[unsetItem{bodyRange(body), name}]
}

// HasBlocks reports whether blocks of a kind are unset in any body.
func (u *Unset) HasBlocks(kind string) bool { return u != nil && u.kinds[kind] }

// HasBlocksIn reports whether blocks of a body are unset.
func (u *Unset) HasBlocksIn(body hcl.Body) bool {
	at := bodyRange(body)
	return u != nil && slices.ContainsFunc(slices.Collect(maps.Keys(u.blocks)), func(i unsetItem) bool {
		return i.body == at
	})
}

// In reports whether anything of a body is unset.
func (u *Unset) In(body hcl.Body) bool { return u != nil && u.bodies[bodyRange(body)] }

// len returns the number of items.
func (u *Unset) len() int {
	if u == nil {
		return 0
	}
	return len(u.arguments) + len(u.blocks)
}

func bodyRange(body hcl.Body) hcl.Range {
	if native, ok := body.(*hclsyntax.Body); ok {
		return native.SrcRange
	}
	return body.MissingItemRange()
}
