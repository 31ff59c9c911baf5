package conf

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Unset has the arguments and blocks for which a fault of a file leaves a struct without a value: another
// fault may be due to their absence. A nil one notes none, and has none.
type Unset struct{ items map[unsetItem]bool }

// unsetItem is an argument, or the blocks of a kind, in a body, which its range identifies.
type unsetItem struct {
	body  hcl.Range
	name  string
	block bool
}

// NewUnset returns an Unset that notes faults.
func NewUnset() *Unset {
	return &Unset{items: map[unsetItem]bool{}}
}

// AddArgument notes an argument of a body.
func (u *Unset) AddArgument(body hcl.Body, name string) { u.add(body, name, false) }

// AddBlock notes a block of a kind in a body.
func (u *Unset) AddBlock(body hcl.Body, kind string) { u.add(body, kind, true) }

// add notes an item. A caller that has no use for it passes a nil Unset.
func (u *Unset) add(body hcl.Body, name string, block bool) {
	if u != nil {
		u.items[unsetItem{bodyRange(body), name, block}] = true
	}
}

// HasArgument reports whether an argument is unset in a body.
func (u *Unset) HasArgument(body hcl.Body, name string) bool {
	return u != nil && u.items[unsetItem{bodyRange(body), name, false}]
}

// Has reports whether an argument of this name, or a block of this kind, is unset in a body.
func (u *Unset) Has(body hcl.Body, name string) bool {
	return u.HasArgument(body, name) || u != nil && u.items[unsetItem{bodyRange(body), name, true}]
}

// HasBlocks reports whether blocks of a kind are unset in any body.
func (u *Unset) HasBlocks(kind string) bool {
	return u.hasAny(func(i unsetItem) bool { return i.block && i.name == kind })
}

// HasArguments reports whether an argument of a name is unset in any body.
func (u *Unset) HasArguments(name string) bool {
	return u.hasAny(func(i unsetItem) bool { return !i.block && i.name == name })
}

// HasBlocksIn reports whether blocks of a body are unset.
func (u *Unset) HasBlocksIn(body hcl.Body) bool {
	at := bodyRange(body)
	return u.hasAny(func(i unsetItem) bool { return i.block && i.body == at })
}

// In reports whether anything of a body is unset.
func (u *Unset) In(body hcl.Body) bool {
	at := bodyRange(body)
	return u.hasAny(func(i unsetItem) bool { return i.body == at })
}

func (u *Unset) hasAny(match func(unsetItem) bool) bool {
	if u == nil {
		return false
	}
	for i := range u.items {
		if match(i) {
			return true
		}
	}
	return false
}

// len returns the number of items.
func (u *Unset) len() int {
	if u == nil {
		return 0
	}
	return len(u.items)
}

// bodyRange identifies a body by its place.
func bodyRange(body hcl.Body) hcl.Range {
	if native, ok := body.(*hclsyntax.Body); ok {
		return native.SrcRange
	}
	return body.MissingItemRange()
}
