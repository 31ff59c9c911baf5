package state

import (
	"cmp"
	"maps"
	"slices"

	"berth/internal/codec"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

// NodePool returns the row of a node pool, nil if it has none. The row has the settings of the scheduler.
func NodePool(tx Reader, name string) *cluster.NodePool {
	return schema.NodePools.Get(tx, name)
}

// NodePools returns the node pools by name: pools with rows, pools that nodes name, and the built-in ones. It
// reads all nodes.
func NodePools(tx Reader) []*cluster.NodePool {
	found := map[string]*cluster.NodePool{
		structs.AllNodePools: {
			Name:        structs.AllNodePools,
			Description: "All nodes",
			Indexes:     namespace.AlwaysThere,
		},
		structs.DefaultNodePool: {
			Name:        structs.DefaultNodePool,
			Description: "The nodes whose configurations name no pool",
			Indexes:     namespace.AlwaysThere,
		},
	}

	stored := map[string]bool{
		structs.AllNodePools:    true,
		structs.DefaultNodePool: true,
	}

	for p := range schema.NodePools.Scan(tx) {
		found[p.Name] = p
		stored[p.Name] = true
	}

	// A pool without a row exists since its first node.
	for n := range Nodes(tx) {
		name := PoolOf(n)
		p := found[name]
		if p == nil || !stored[name] && p.CreateIndex > n.CreateIndex {
			first := structs.Indexes{CreateIndex: n.CreateIndex, ModifyIndex: n.CreateIndex}
			found[name] = &cluster.NodePool{Name: name, Indexes: first}
		}
	}

	return slices.SortedFunc(maps.Values(found), func(a, b *cluster.NodePool) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

// PoolOf returns the name of a node's pool.
func PoolOf(n *structs.Node) string {
	return cmp.Or(n.NodePool, structs.DefaultNodePool)
}

// NodePoolApply creates a node pool or replaces its definition. An equal definition changes nothing.
func NodePoolApply(tx *WriteTx, p *cluster.NodePoolApplyRequest) error {
	if p.Pool == nil || p.Pool.Name == "" ||
		cluster.BuiltInNodePool(p.Pool.Name) {
		return structs.Invalidf("a node pool needs a name, which is not that of a built-in pool")
	}
	n := p.Pool.Copy()
	old := NodePool(tx, n.Name)
	if old != nil {
		n.Indexes = old.Indexes
	}
	if old == nil || !codec.SameBytes(old, n) {
		schema.NodePools.Put(tx, n)
	}
	return nil
}

// NodePoolDelete deletes the row of a node pool that no node and no job that is not dead names.
func NodePoolDelete(tx *WriteTx, p *cluster.NodePoolDeleteRequest) error {
	if cluster.BuiltInNodePool(p.Name) {
		return structs.Invalidf("the node pool %q always exists; it cannot be deleted", p.Name)
	}

	count, node := namespace.CountRows(schema.Filter(Nodes(tx), func(n *structs.Node) bool {
		return PoolOf(n) == p.Name
	}))
	if count > 0 {
		return structs.Preconditionf("node pool %q has %s, such as %q; "+
			"set another node_pool in the configuration, or purge the nodes, first",
			p.Name, structs.Counted(count, "node"), node.Name)
	}

	count, job := namespace.CountRows(schema.Filter(schema.Jobs.Scan(tx), func(j *structs.Job) bool {
		return namespace.IsLive(j) && j.NodePool == p.Name
	}))
	if count > 0 {
		return structs.Preconditionf(
			"%d jobs that are not dead run in node pool %q, such as %q in namespace %q; stop or move them first",
			count, p.Name, job.ID, job.Namespace)
	}

	row := NodePool(tx, p.Name)
	if row == nil {
		return structs.NotFoundf("there is no node pool %q", p.Name)
	}

	schema.NodePools.Delete(tx, row)
	return nil
}
