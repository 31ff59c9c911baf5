// Package agenttest gives the requests of nodes in tests what the agent of a node adds to them. Tests of the
// endpoints, of servers and of clusters speak for nodes that have no agent. It is apart from package kit of
// the tests, because the fixtures of procedures need it, and kit knows no rows.
package agenttest

import (
	"maps"
	"strconv"

	"berth/internal/level"
	"berth/structs"
)

// Proof returns the proof of the agents of these tests. They all are in one boot, and have had no nonce
// acknowledged.
func Proof() *structs.AgentProof { return &structs.AgentProof{BootID: "b1", Nonce: "x"} }

// Request returns a request of a node as its agent sends it: see Stamp.
func Request[R any](req *R) *R {
	Stamp(req)
	return req
}

// Stamp gives a request of a node what its agent adds to each of them: the proof and, for a registration, its
// level. It keeps a proof and a level that the request already has.
func Stamp(req any) {
	switch r := req.(type) {
	case *structs.NodeRegisterRequest:
		if r.Agent == nil {
			r.Agent = Proof()
		}
		if r.Node != nil && r.Node.Attributes[structs.AttrNodeLevel] == "" {
			row := *r.Node
			row.Attributes = maps.Clone(row.Attributes)
			if row.Attributes == nil {
				row.Attributes = map[string]string{}
			}
			row.Attributes[structs.AttrNodeLevel] = strconv.Itoa(level.Now)
			r.Node = &row
		}
	case *structs.NodeHeartbeatRequest:
		if r.Agent == nil {
			r.Agent = Proof()
		}
	case structs.AgentRequest:
		if r.SentAgent() == nil {
			r.StampAgent(Proof())
		}
	}
}
