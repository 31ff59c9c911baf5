package state

import (
	"cmp"

	"berth/structs"
)

// NodeUpdate applies an entry of earlier versions: it changes the parts of a node that the entry has. It does
// not change its plugin instances or the fields of the servers, so a down node stays down. If a property of a
// ready node changed that placement depends on, its jobs are evaluated, as after a registration. Every
// version applies an entry alike, with or without a class (see NodeUpdateRequest).
func NodeUpdate(tx *WriteTx, p *structs.NodeUpdateRequest) error {
	old, err := findNode(tx, p.NodeID, p.SecretID)
	if err != nil {
		return err
	}
	if p.Was != 0 && p.Was != old.ModifyIndex {
		return structs.Conflictf("node %q has changed since its class was worked out", p.NodeID)
	}
	n := p.Changed(old)
	n.ComputedClass = cmp.Or(p.ComputedClass, old.ComputedClass)
	if structs.NodeEqual(old, n, 0) {
		return nil
	}
	internReport(n)
	nodes.Put(tx, n)
	if n.Status == structs.NodeReady &&
		!sameForPlacement(old, n) {
		evaluateNode(tx, n.ID, true, p.Now)
	}
	return nil
}
