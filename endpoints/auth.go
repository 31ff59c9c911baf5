package endpoints

import (
	"context"
	"strings"
	"time"

	"berth/endpoints/join"
	"berth/endpoints/rights"
	"berth/internal/agentproof"
	"berth/internal/opsocket"
	"berth/state"
	"berth/structs"
	"berth/structs/validate/report"
)

// checkSender returns an error if a method is for nodes or for the operator socket alone, and another caller
// sent the request. node is the row of a node that gave its secret. The mark of the socket is in the context
// and no part of the request, so a request by RPC has none, also one that another server has forwarded.
func (e *Endpoints) checkSender(ctx context.Context, r rights.Right, node *structs.Node) error {
	switch {
	case r.NeedsNode() && node == nil:
		return structs.Deniedf("only a node may call this, with its ID and secret")
	case r.NeedsSocket():
		return e.mayAssert(ctx)
	}
	return nil
}

// mayAssert returns an error unless a request came over the operator socket of this server.
func (e *Endpoints) mayAssert(ctx context.Context) error {
	if opsocket.Marked(ctx) {
		return nil
	}

	return &structs.Error{
		Kind:   structs.KindDenied,
		Text:   "this is accepted only over the operator socket of the server that leads, which root alone may open: it is unix://" + e.Socket + " on server " + e.Name,
		Socket: e.Socket,
	}
}

// authenticate finds the node that sent a request. A request without a secret is an operator's. A handler
// thus gets a node only after its secret has matched. The row may be another one a moment later: a handler
// that must know proposes an entry, and the state function checks again.
func (e *Endpoints) authenticate(req any) (*structs.Node, error) {
	// A request without these fields names no node, so its caller is an operator or a token.
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

	// One transaction reads both rows, so a revocation and the row that it is about are of one point in time.
	tx := e.Store.Read()
	node := state.Node(tx, id)
	err := e.CheckNode(node, secret)
	// A revoked node still has its row and its secret. Its connections are closed, but another server may
	// take one for a moment longer and forward what comes over it.
	if err == nil {
		err = join.CheckRevoked(tx, id)
	}

	// A request of an earlier epoch was sent before the servers took the node for lost. Others may have its
	// work since, so the request must change nothing.
	sent, ok := req.(structs.EpochRequest)
	if err == nil && ok {
		err = node.CheckEpoch(sent)
	}

	asked, ok := req.(structs.AgentRequest)
	if err == nil && ok {
		err = e.checkAgent(node, asked.SentAgent())
	}

	return node, err
}

// checkAgent rejects a request about the claims of a node of another agent than the servers have accepted.
// The row tells them apart, and a state function looks at it again. Two agents on one machine in one boot
// differ in what the leader alone knows: the nonce and the store.
func (e *Endpoints) checkAgent(node *structs.Node, agent *structs.AgentProof) error {
	err := agentproof.CheckProof(agent)
	if err == nil {
		err = report.Agent(agent)
	}
	if err == nil {
		err = node.CheckAgent(agent)
	}
	if err == nil {
		err = e.Leases.Admit(agentproof.Node{Row: node}, agent)
	}
	return err
}

// checkRight asks the gate about the token of a request, with the state of this server.
func (e *Endpoints) checkRight(ctx context.Context, allow rights.Right, req any) error {
	until, err := e.Gate.Admit(ctx, e.Store.Read(), allow, req)
	if err == nil {
		_, err = e.confirm(until)
	}
	return err
}

// confirm is the gate's, with the time since this server has heard from a leader.
func (e *Endpoints) confirm(until rights.Until) (time.Duration, error) {
	_, _, _, silence := e.Raft.Leader()
	return e.Gate.Confirm(until, silence)
}

// makesCredentials reports whether a method is about what gives rights: tokens, policies, roles, logins and
// join tokens. No machine calls such a method for itself.
func makesCredentials(method string) bool {
	return strings.HasPrefix(method, "ACL.") || strings.HasPrefix(method, "JoinToken.")
}

// checkPlain returns an error if a request without a token is about credentials, and the port has no TLS.
// There the servers cannot tell a node or a server from any other caller.
func (e *Endpoints) checkPlain(d delivered, req any) error {
	if e.Roles || !e.Gate.Enforces() || d.allow.IsOpen() || !makesCredentials(d.method.Name) ||
		rights.SecretOf(req) != "" {
		return nil
	}
	return structs.Deniedf("%s: this port has no TLS, and takes calls about tokens from callers with a token "+
		"alone; call the HTTP API", d.method.Name)
}
