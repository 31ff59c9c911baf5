package structs

// The methods of the servers themselves.
var (
	StatusLeader = read[QueryRequest, StatusLeaderResponse]("Status.Leader")
	StatusPeers  = read[QueryRequest, StatusPeersResponse]("Status.Peers")
	// Each server answers StatusPing itself.
	StatusPing     = read[QueryRequest, Empty]("Status.Ping")
	OperatorRaft   = read[QueryRequest, RaftConfigurationResponse]("Operator.RaftConfiguration")
	OperatorRemove = write[RaftRemovePeerRequest, Empty]("Operator.RaftRemovePeer")
	SystemGC       = write[WriteRequest, Empty]("System.GarbageCollect")
)

// StatusLeaderResponse has the leader's advertised RPC address, "" while there is none.
type StatusLeaderResponse struct {
	Leader string
	QueryMeta
}

// StatusPeersResponse has the RPC addresses of the Raft peers.
type StatusPeersResponse struct {
	Peers []string
	QueryMeta
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

// RaftConfigurationResponse is the current Raft configuration.
type RaftConfigurationResponse struct {
	Servers []*RaftServer
	QueryMeta
}

// RaftRemovePeerRequest names the server that loses its vote: by ID, or by Address.
type RaftRemovePeerRequest struct {
	ID      string
	Address string // host:port of Raft and RPC
	WriteOptions
}

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
