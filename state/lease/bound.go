package lease

import (
	"iter"
	"time"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

// Bound returns the longest lease, with its grace, that a leader may have granted. It is 0 if none has
// granted a lease.
func Bound(tx mvcc.Reader) time.Duration {
	row := schema.LeaseBounds.Get(tx, schema.OnlyLeaseBound)
	if row == nil {
		return 0
	}
	return row.Longest
}

// LeaseBoundSet stores the bound of the leases that leaders grant.
func LeaseBoundSet(tx *mvcc.WriteTx, p *cluster.LeaseBoundRequest) error {
	if p.Longest <= 0 {
		return structs.Invalidf("Longest is %s; expected the longest lease with its grace", p.Longest)
	}
	schema.LeaseBounds.Put(tx, &cluster.LeaseBound{Longest: p.Longest})
	return nil
}

// NodeLeases yields the longer leases that operators have ordered.
func NodeLeases(tx mvcc.Reader) iter.Seq[*cluster.NodeLease] { return schema.NodeLeases.Scan(tx) }

// NodeLeaseSet stores the longer lease of a node, or deletes it. It never shortens one: the leader that
// granted it may still count it.
func NodeLeaseSet(tx *mvcc.WriteTx, p *cluster.NodeLeaseRequest) error {
	old := schema.NodeLeases.Get(tx, p.NodeID)
	if p.Length <= 0 {
		if old != nil {
			schema.NodeLeases.Delete(tx, old)
		}
		return nil
	}

	n, err := FindNode(tx, p.NodeID, "")
	if err != nil {
		return err
	}
	if n.Status == structs.NodeDown {
		return structs.Preconditionf("node %q is down: its lease has ended already", p.NodeID)
	}
	if old == nil || old.Length < p.Length {
		schema.NodeLeases.Put(tx, &cluster.NodeLease{NodeID: n.ID, Length: p.Length})
	}
	return nil
}

// CheckNodeLeases checks that every longer lease has its node.
func CheckNodeLeases(c *schema.Report) {
	schema.CheckIndexes(c, schema.NodeLeases)
	for l := range NodeLeases(c) {
		c.Want(schema.Nodes.Get(c, l.NodeID) != nil, "the lease of node %q: there is no such node", l.NodeID)
	}
}
