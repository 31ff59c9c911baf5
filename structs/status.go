package structs

// StatusLeaderResponse carries the leader's advertised RPC address, "" while there is none.
type StatusLeaderResponse struct {
	Leader string
	QueryMeta
}

// StatusPeersResponse carries the RPC addresses of the Raft peers.
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
}

// RaftConfigurationResponse is the current Raft configuration.
type RaftConfigurationResponse struct {
	Servers []*RaftServer
	QueryMeta
}

// AgentMember is one server as the gossip sees it.
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
