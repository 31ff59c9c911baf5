package state

import (
	"cmp"

	"berth/structs"
)

// NodeUpdate changes of a node what it says that differs, and nothing else: not its plugin instances, nor
// what the servers know of it. A node that is down stays down. One that is ready and changed what placement
// looks at gets its jobs evaluated, as when it registers. The same again changes nothing. Every version
// applies an entry alike, whether it has a class (see NodeUpdateRequest) or not.
func NodeUpdate(tx *WriteTx, p *structs.NodeUpdateRequest) error {
	old, err := mustNode(tx.ReadTx, p.NodeID, p.SecretID)
	if err != nil {
		return err
	}
	if p.Was != 0 && p.Was != old.ModifyIndex {
		return structs.Errorf(structs.KindConflict, "node %q has changed since its class was worked out", p.NodeID)
	}
	n := p.Changed(old)
	n.ComputedClass = cmp.Or(p.ComputedClass, old.ComputedClass)
	if sameNode(old, n) {
		return nil
	}
	attributes := len(p.Attributes)+len(p.AttributesGone) > 0
	if !attributes {
		n.Attributes = nil // they are shared already
	}
	internReport(n)
	if !attributes {
		n.Attributes = old.Attributes
	}
	nodes.Put(tx, n)
	if n.Status == structs.NodeReady && !alikeToPlacement(old, n) {
		evaluateNode(tx, n.ID, true, p.Now)
		makeRoom(tx, n.ID)
	}
	return nil
}
