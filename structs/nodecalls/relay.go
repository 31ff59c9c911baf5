package nodecalls

import "berth/structs"

// Relay calls a method of a node over the connection that another server has to it: the node may reach that
// one, and not the leader. The called server serves it itself. It is not served (structs.IsNotServed) by one
// that has no connection to the node. All other errors are of the node, or of the call to it.
var Relay = structs.Read[RelayRequest, RelayResponse]("Node.Relay")

// RelayRequest is a call of a node.
type RelayRequest struct {
	NodeID string
	Method string
	Body   string // the request, in msgpack
	structs.QueryOptions
}

// RelayResponse has the answer of the node.
type RelayResponse struct {
	Body string // in msgpack
	structs.QueryMeta
}
