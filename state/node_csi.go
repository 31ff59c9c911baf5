package state

import (
	"slices"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/lease"
	"berth/state/schema"
	"berth/structs"
)

// NodeUpdateCSI stores a node's report of its plugin instances: all of them, or the changes.
func NodeUpdateCSI(tx *WriteTx, p *structs.NodeUpdateCSIRequest) error {
	old, err := lease.FindCaller(tx, p)
	if err != nil {
		return err
	}

	was := nodeHealth{old, instancesOf(tx, old, p)}
	n := old
	halves := reportedHalves(tx, old, p)
	if !slices.Equal(halves, old.CSIInstances()) {
		n = shallowCopy(old)
		n.SetCSIInstances(halves)
		schema.Nodes.Put(tx, n)
	}

	err = csi.UpdateInstances(tx, old, n, p)
	if err != nil {
		return err
	}

	now := nodeHealth{old, instancesOf(tx, n, p)}
	recordChanges(tx, n.ID, was, now, p.Now)
	return nil
}

// reportedHalves returns the keys of the instances that a node has after the report, by plugin and kind. old
// is the node before the report, nil for a new one.
func reportedHalves(
	tx *WriteTx, old *structs.Node, p *structs.NodeUpdateCSIRequest,
) []structs.CSIInstanceKey {
	keys := make([]structs.CSIInstanceKey, 0, len(p.Upserts))
	if !p.Full {
		keys = append(keys, old.CSIInstances()...)
	}

	for _, i := range p.Upserts {
		if i == nil {
			continue
		}

		k := i.Key()
		at, there := slices.BinarySearchFunc(keys, k, structs.CSIInstanceKey.Compare)
		if !there {
			keys = slices.Insert(keys, at, k)
		}
	}

	keys = slices.DeleteFunc(keys, func(k structs.CSIInstanceKey) bool {
		return slices.Contains(p.Removes, k)
	})

	switch {
	case len(keys) == 0:
		return nil
	case old != nil && slices.Equal(keys, old.CSIInstances()):
		return old.CSIInstances()
	}

	// Nodes with the same plugins share one list.
	shared := keys
	return *mvcc.InternValue(&shared)
}
