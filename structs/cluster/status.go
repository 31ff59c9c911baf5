package cluster

import "berth/structs"

// The methods that have neither parameters nor a result.
var (
	// StatusPing server answers StatusPing itself.
	StatusPing = structs.Read[structs.QueryRequest, structs.Empty]("Status.Ping")
	SystemGC   = structs.Write[structs.WriteRequest, structs.Empty]("System.GarbageCollect")
)

// StatusLeader reads the address of the leader.
var StatusLeader = structs.Read[structs.QueryRequest, StatusLeaderResponse]("Status.Leader")

// StatusLeaderResponse has the leader's advertised RPC address, "" while there is none.
type StatusLeaderResponse struct {
	Leader string
	structs.QueryMeta
}

// StatusPeers reads the addresses of the Raft peers.
var StatusPeers = structs.Read[structs.QueryRequest, StatusPeersResponse]("Status.Peers")

// StatusPeersResponse has the RPC addresses of the Raft peers.
type StatusPeersResponse struct {
	Peers []string
	structs.QueryMeta
}

// RaftServer is one member of the Raft configuration.
type RaftServer struct {
	ID           string
	Node         string // the server's name
	Address      string // host:port of Raft and RPC
	Leader       bool
	Voter        bool
	RaftProtocol string
	Status       string // in the gossip: alive, leaving, left or failed; "" where the gossip does not know it
}

// OperatorRaft reads the Raft configuration.
var OperatorRaft = structs.Read[structs.QueryRequest, RaftConfigurationResponse]("Operator.RaftConfiguration")

// RaftConfigurationResponse is the current Raft configuration.
type RaftConfigurationResponse struct {
	Servers []*RaftServer
	structs.QueryMeta
}

// OperatorRemove removes a server from the Raft configuration.
var OperatorRemove = structs.Write[RaftRemovePeerRequest, structs.Empty]("Operator.RaftRemovePeer")

// RaftRemovePeerRequest names the server that loses its vote: by ID, or by Address.
type RaftRemovePeerRequest struct {
	ID      string
	Address string // host:port of Raft and RPC
	structs.WriteOptions
}

// OperatorTransfer makes another server lead.
var OperatorTransfer = structs.Write[RaftTransferRequest, structs.Empty]("Operator.RaftTransferLeadership")

// RaftTransferRequest names the server that is to lead: by ID, or by Address.
type RaftTransferRequest struct {
	ID      string
	Address string // host:port of Raft and RPC
	structs.WriteOptions
}

// MemberAlive is the status of a member that answers.
const MemberAlive = "alive"

// AgentMember is one server in the gossip.
type AgentMember struct {
	Name        string
	Addr        string
	Port        uint16
	Tags        map[string]string
	Status      string // alive, leaving, left, failed
	ProtocolMin uint8
	ProtocolMax uint8
	ProtocolCur uint8
	DelegateMin uint8
	DelegateMax uint8
	DelegateCur uint8
}
