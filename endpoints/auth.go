package endpoints

import (
	"crypto/subtle"

	"berth/state"
	"berth/structs"
)

// rule returns an error if a caller may not use a method at all. The handler decides about the rows. node is
// the row of a node that gave its secret. There are no access policies yet: every other caller is an
// operator, without a node.
type rule func(node *structs.Node) error

// anyone is the rule of methods for operators. Access policies will go here.
func anyone(*structs.Node) error { return nil }

// nodeOnly is the rule of methods that a node uses about itself.
func nodeOnly(node *structs.Node) error {
	if node == nil {
		return structs.Deniedf("only a node may call this, with its ID and secret")
	}
	return nil
}

// authenticate finds the node that sent a request. A request without a secret is an operator's.
func (e *Endpoints) authenticate(req any) (*structs.Node, error) {
	r, ok := req.(interface {
		Credentials() (nodeID, secretID string)
	})
	if !ok {
		return nil, nil
	}
	id, secret := r.Credentials()
	if secret == "" {
		return nil, nil
	}
	node := state.Node(e.store.Read(), id)
	return node, e.checkNode(node, secret)
}

// checkNode compares a secret with the row of a node in constant time. The error for an unknown node is
// not-found at the leader, so that the node registers again, and unavailable at a follower, which may lag.
func (e *Endpoints) checkNode(node *structs.Node, secret string) error {
	if node == nil {
		_, isMe, _, _ := e.raft.Leader()
		if !isMe {
			return structs.NotServedf("this server does not know the node yet")
		}
		return structs.NotFoundf("the node is not registered")
	}
	if subtle.ConstantTimeCompare([]byte(node.SecretID), []byte(secret)) != 1 {
		return structs.Deniedf("the secret is not that of node %s", node.ID)
	}
	return nil
}
