package endpoints

import (
	"context"

	"berth/endpoints/join"
	"berth/internal/opsocket"
	"berth/state"
	"berth/structs"
)

// rule returns an error if a caller may not use a method at all. The handler decides about the rows. node is
// the row of a node that gave its secret. There are no access policies yet: every other caller is an
// operator, without a node.
type rule func(ctx context.Context, node *structs.Node) error

// anyone is the rule of methods for operators. Access policies will go here.
func anyone(context.Context, *structs.Node) error { return nil }

// nodeOnly is the rule of methods that a node uses about itself.
func nodeOnly(_ context.Context, node *structs.Node) error {
	if node == nil {
		return structs.Deniedf("only a node may call this, with its ID and secret")
	}
	return nil
}

// socketOnly is the rule of methods that assert a fact of which the servers have no proof. A request needs
// the mark of the operator socket of this server, which leads. The mark is in the context and no part of the
// request, so a request by RPC has none, also one that another server has forwarded.
func (e *Endpoints) socketOnly(ctx context.Context, _ *structs.Node) error {
	return e.mayAssert(ctx)
}

// mayAssert returns an error unless a request came over the operator socket of this server.
func (e *Endpoints) mayAssert(ctx context.Context) error {
	if opsocket.Marked(ctx) {
		return nil
	}
	return &structs.Error{
		Kind: structs.KindDenied,
		Text: "this is accepted only over the operator socket of the server that leads, which root alone may " +
			"open: it is unix://" + e.Socket + " on server " + e.Name,
		Socket: e.Socket,
	}
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
	tx := e.Store.Read()
	node := state.Node(tx, id)
	err := e.CheckNode(node, secret)
	if err == nil {
		err = join.CheckRevoked(tx, id)
	}
	sent, ok := req.(structs.EpochRequest)
	if err == nil && ok {
		err = node.CheckEpoch(sent)
	}
	return node, err
}
