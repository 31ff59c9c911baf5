package cluster

import (
	"berth/structs"
	"time"
)

// The bounds of the foreign nodes that a leader remembers.
const (
	MaxForeignNodes = 64
	ForeignNodeFor  = time.Hour // since the node asked last
)

// ForeignNode is a node of another cluster that asked to join this one and was rejected, as it describes
// itself. Its tasks go on.
type ForeignNode struct {
	ID        string
	Name      string
	HTTPAddr  string
	ClusterID string // of the cluster to which it belongs
	Allocs    int    // allocations that have not ended there
	Volumes   int    // volumes that it has staged or mounted
	Asked     int64  // the last time, UnixNano
	Reason    string // for which the servers reject it, with the remedy
}

// NodeForeignList lists the foreign nodes that the leader remembers, by name.
var NodeForeignList = structs.Read[structs.QueryRequest, NodeForeignListResponse]("Node.ListForeign")

// NodeForeignListResponse has at most MaxForeignNodes. A new leader knows each of them with its next attempt,
// which follows within seconds.
type NodeForeignListResponse struct {
	Nodes []*ForeignNode
	structs.QueryMeta
}
