package endpoints

import (
	"crypto/subtle"

	"berth/state"
	"berth/structs"
)

// identity is the caller. There are no access policies yet: each caller that is not a node is an operator.
type identity struct {
	Node *structs.Node // the row of a node that gave its secret, nil for others
}

// rule says whether a caller may use a method at all. The handler decides about the rows.
type rule func(identity) error

// anyone is the rule of methods for operators. Access policies will go here.
func anyone(identity) error { return nil }

// aNode is the rule of methods that a node uses about itself.
func aNode(who identity) error {
	if who.Node == nil {
		return structs.Deniedf("only a node may ask this, with its ID and secret")
	}
	return nil
}

// authenticate finds the caller. A request without a secret is an operator's.
func (e *Endpoints) authenticate(req any) (identity, error) {
	r, ok := req.(interface {
		Credentials() (nodeID, secretID string)
	})
	if !ok {
		return identity{}, nil
	}
	id, secret := r.Credentials()
	if secret == "" {
		return identity{}, nil
	}
	node := state.Node(e.store.Read(), id)
	return identity{Node: node}, e.checkNode(node, secret)
}

// checkNode compares a secret with the row of a node in constant time. The error for an unknown node is
// not-found at the leader, so that the node registers again, and unavailable at a follower, which may lag.
func (e *Endpoints) checkNode(node *structs.Node, secret string) error {
	if node == nil {
		if _, isMe, _, _ := e.raft.Leader(); !isMe {
			return structs.Unavailablef("this server does not know the node yet")
		}
		return structs.NotFoundf("the node is not registered")
	}
	if subtle.ConstantTimeCompare([]byte(node.SecretID), []byte(secret)) != 1 {
		return structs.Deniedf("the secret is not that of node %s", node.ID)
	}
	return nil
}
