package state

import "berth/structs"

// findNode returns the node that a request names. It rejects a wrong secret; a request without a secret
// passes.
func findNode(tx Reader, id, secret string) (*structs.Node, error) {
	n := nodes.Get(tx, id)
	if n == nil {
		return nil, structs.NotFoundf("no node %q", id)
	}
	if secret != "" && n.SecretID != "" &&
		secret != n.SecretID {
		return nil, structs.Deniedf("the secret is not that of node %q", id)
	}
	return n, nil
}

// findCaller returns the node that sent a request. It rejects a wrong secret, and a request of an earlier
// epoch.
func findCaller(tx Reader, p structs.EpochRequest) (*structs.Node, error) {
	id, secret := p.Credentials()
	n, err := findNode(tx, id, secret)
	if err != nil {
		return nil, err
	}
	return n, n.CheckEpoch(p)
}

// countsEpochs reports whether all servers have level 2. Servers of level 1 know no epochs. So no server
// counts them before an entry that needs level 2, which is the bound of leases.
func countsEpochs(tx Reader) bool { return LeaseBound(tx) != 0 }

// epochAfter returns the epoch of a node that has a status from now on: see structs.Node.
func epochAfter(tx *WriteTx, old *structs.Node, status string) uint64 {
	comes := old == nil || old.Status == structs.NodeDown && status != structs.NodeDown
	switch {
	case !comes:
		return old.Epoch
	case !countsEpochs(tx):
		return 0
	}
	return tx.Index
}

// mustComeClean reports whether a node that comes back has to tell that it is clean: see
// structs.Node.Returning. Nodes and servers of level 1 know nothing of it.
func mustComeClean(tx Reader, n *structs.Node) bool {
	return n.BootID != "" && countsEpochs(tx)
}

// endReturn lets a node that came back take allocations.
func endReturn(tx *WriteTx, n *structs.Node, now int64) {
	n.Returning = false
	addEvents(tx, n, serverEvent("Cluster", "Node has released all that is no longer its own", now))
	nodes.Put(tx, n)
	evaluateNode(tx, n.ID, true, now)
}
