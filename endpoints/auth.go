package endpoints

import (
	"crypto/subtle"

	"berth/state"
	"berth/structs"
)

// identity is who asks. Until there are access policies everybody who is not a node is an operator.
type identity struct {
	Node *structs.Node // the row of a node that proved itself, nil for anybody else
}

// rule says whether somebody may use a method at all; what they may do with it is the handler's matter.
type rule func(identity) error

// anyone is the rule of methods for operators: the seam where access policies go.
func anyone(identity) error { return nil }

// aNode is the rule of methods that only a node may use, about itself.
func aNode(who identity) error {
	if who.Node == nil {
		return structs.Errorf(structs.KindDenied, "only a node may ask this, with its ID and secret")
	}
	return nil
}

// authenticate finds out who asks. A request without a secret is an operator's.
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

// checkNode compares a secret with the node's row in constant time. A node that this server does not know
// is told not-found, so that it registers again; on a server that lags behind it tries again.
func (e *Endpoints) checkNode(node *structs.Node, secret string) error {
	if node == nil {
		if _, isMe, _, _ := e.raft.Leader(); !isMe {
			return structs.Errorf(structs.KindUnavailable, "this server does not know the node yet")
		}
		return structs.Errorf(structs.KindNotFound, "the node is not registered")
	}
	if subtle.ConstantTimeCompare([]byte(node.SecretID), []byte(secret)) != 1 {
		return structs.Errorf(structs.KindDenied, "the secret is not that of node %s", node.ID)
	}
	return nil
}
