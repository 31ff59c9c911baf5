package lease

import (
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// FindNode returns the node that a request names. It rejects a wrong secret; a request without a secret
// passes.
func FindNode(tx mvcc.Reader, id, secret string) (*structs.Node, error) {
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

// FindCaller returns the node that sent a request. It rejects a wrong secret, a request of an earlier epoch,
// and one about claims of another agent than the row knows.
func FindCaller(tx mvcc.Reader, p structs.EpochRequest) (*structs.Node, error) {
	id, secret := p.Credentials()
	n, err := FindNode(tx, id, secret)
	if err == nil {
		err = n.CheckEpoch(p)
	}
	if err != nil {
		return nil, err
	}

	if r, ok := p.(structs.AgentRequest); ok {
		err = n.CheckAgent(r.SentAgent())
	}
	return n, err
}
