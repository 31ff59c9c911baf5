package state

import (
	"berth/state/schema"
	"berth/structs"
)

// findNode returns the node that a request names. It rejects a wrong secret; a request without a secret
// passes.
func findNode(tx Reader, id, secret string) (*structs.Node, error) {
	n := schema.Nodes.Get(tx, id)
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
