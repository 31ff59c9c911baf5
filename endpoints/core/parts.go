package core

import (
	"context"
	"time"

	"berth/fsm"
	"berth/internal/agentproof"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/event"
)

// Raft is the membership of this server in the cluster, as the procedures use it.
type Raft interface {
	fsm.Proposer
	// Leader names the leader. isMe is true once this server has applied all entries that were committed
	// before its term began. known is false while there is no leader. lastContact is the time since the last
	// contact of a follower with its leader, or since its start if there was none.
	Leader() (addr string, isMe bool, known bool, lastContact time.Duration)
	// Leads returns a context that ends when the server at an address has lost its leadership, as far as this
	// server knows.
	Leads(addr string) context.Context
	// VerifyLeader confirms with a quorum that this server still leads. If it does not, the error is
	// unavailable.
	VerifyLeader() error
	// Alone reports whether this server leads and is a quorum by itself.
	Alone() bool
	// LostLeadership is closed while this server does not lead.
	LostLeadership() <-chan struct{}
	// Configuration is the Raft configuration as this server knows it.
	Configuration() []*cluster.RaftServer
	// RemovePeer removes a server that is not alive from the Raft configuration, and its vote with it.
	RemovePeer(id, address string) (index uint64, err error)
	// TransferLeadership makes another server lead, and waits until it does. Only the leader can do it.
	TransferLeadership(ctx context.Context, id, address string) error
	// Forward calls a method at another server.
	Forward(ctx context.Context, addr, method string, req, resp any) error
	// Servers are the RPC addresses of the servers, the leader's first.
	Servers() []string
}

// Leases are the nodes' heartbeats, kept by the leader.
type Leases interface {
	// Admit returns an error if another agent has the lease of the node, or its volumes, and if the request does
	// not say which agent sends it. The row is nil for a new node.
	Admit(n agentproof.Node, agent *structs.AgentProof) error
	// NoteSecond notes an agent that Admit has rejected.
	NoteSecond(nodeID string, agent *structs.AgentProof, s structs.SecondAgent)
	// Second returns the agent of a node that was rejected last, nil if there is none.
	Second(nodeID string) *structs.SecondAgent
	// Renew restarts the lease of a node for an agent that Admit has accepted. The error is unavailable if this
	// server does not lead, or not yet, or if another agent was faster.
	Renew(nodeID string, agent *structs.AgentProof) (structs.LeaseGrant, error)
	// Forget ends the lease of a node that was deleted.
	Forget(nodeID string)
	// Length returns the length, with the grace, of a lease that an operator orders.
	Length(ordered time.Duration) (time.Duration, error)
	// Extend grants a lease of a length that the log has. The error is unavailable if this server does not lead.
	Extend(nodeID string, length time.Duration) error
}

// Autopilot is the view of the leader on the servers.
type Autopilot interface {
	// Stats returns how far this server has followed the log.
	Stats() cluster.RaftStats
	// Health returns the health of all servers. The error is unavailable if this server does not lead.
	Health() (*cluster.AutopilotHealthResponse, error)
}

// Fencing has the fence devices of a server, in the order in which they are tried.
type Fencing interface {
	// For returns the devices that fence a node, with the numbers of the claims that a proof of each covers,
	// and the others with the reasons.
	For(t *state.FenceTarget, claims []*cluster.LostClaim) ([]*cluster.FenceDevice, []*cluster.FenceMismatch)
	// Test runs the action monitor of each device that fences a node. It changes nothing.
	Test(ctx context.Context, t *state.FenceTarget) []*cluster.FenceTest
}

// Consul is what the procedures do in Consul.
type Consul interface {
	// CreateToken makes a token with the rights of a service and returns its secret. After an error the token
	// may exist, or may exist later.
	CreateToken(ctx context.Context, t ServiceToken) (structs.Secret, error)
	// RevokeToken deletes a token. One that is gone is no error.
	RevokeToken(ctx context.Context, accessorID string) error
	// CheckSubmitter returns an error if the submitter of a job may not register services with these names.
	CheckSubmitter(ctx context.Context, token structs.Secret, services []string) error
	// SetGateway writes the configuration entry of a gateway.
	SetGateway(ctx context.Context, service string, g *structs.Gateway) error
}

// ServiceToken is an order of a token.
type ServiceToken struct {
	AccessorID  string
	Service     string
	Description string
}

// RootKeys serve the methods of the keyring on one server (see server/keys).
type RootKeys interface {
	List(context.Context, *structs.QueryRequest) (*cluster.KeyringListResponse, error)
	Serve(context.Context, *cluster.KeyringRotateRequest, *cluster.KeyringRotateResponse) (uint64, error)
	Status(*cluster.KeyringStatus)
}

// noRootKeys stand for the root keys of a server without any.
type noRootKeys struct{}

var errNoRootKeys = structs.Preconditionf("this server has no root keys")

func (noRootKeys) List(context.Context, *structs.QueryRequest) (*cluster.KeyringListResponse, error) {
	return nil, errNoRootKeys
}

func (noRootKeys) Serve(
	context.Context, *cluster.KeyringRotateRequest, *cluster.KeyringRotateResponse,
) (uint64, error) {
	return 0, errNoRootKeys
}

func (noRootKeys) Status(*cluster.KeyringStatus) {}

// Events has the newest events of one server (see server/events).
type Events interface {
	// Read returns the events after the position of a request that keep accepts. Without any it waits until ctx
	// ends. The payload of an event is not there yet when keep is called.
	Read(
		ctx context.Context, req *event.ListRequest, keep func(*event.Event) (bool, error),
	) (*event.ListResponse, error)
}

// noEvents stand for the events of a server without any.
type noEvents struct{}

func (noEvents) Read(
	context.Context, *event.ListRequest, func(*event.Event) (bool, error),
) (*event.ListResponse, error) {
	return nil, structs.Preconditionf("this server keeps no events")
}

// Locks are the ends of the locks of variables, in the memory of the leader.
type Locks interface {
	// Renew keeps the lock of a variable for another TTL. The error is a conflict if it has just ended, and
	// unavailable if this server does not lead.
	Renew(v *access.Variable) error
}
