package endpoints_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/structs"
)

// A node that does not reach the leader works through a follower, which has to keep its connection. Only the
// leader knows whether the node is the one that it says.
func TestFollower_KeepsTheConnectionOfANodeThatTheLeaderAccepts(t *testing.T) {
	s := endpointstest.New(t)
	s.Raft.IsMe = false
	server := endpointstest.NewPool(t).At(endpointstest.Listen(t, s.RPC))
	for name, c := range map[string]struct {
		request func(node string) error
		answer  error
		kept    bool
	}{
		"accepted": {request: func(node string) error {
			_, err := rpc.Call(t.Context(), server, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{NodeID: node})
			return err
		}, kept: true},
		"registered": {request: func(node string) error {
			_, err := rpc.Call(t.Context(), server, structs.NodeRegister,
				&structs.NodeRegisterRequest{Node: &structs.Node{ID: node}})
			return err
		}, kept: true},
		"rejected": {request: func(node string) error {
			_, err := rpc.Call(t.Context(), server, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{NodeID: node})
			return err
		}, answer: structs.Deniedf("another secret")},
	} {
		s.Raft.OnForward = func(string, any, any) error { return c.answer }
		err := c.request(name)
		if (err == nil) != c.kept || (s.Nodes.Session(name) != nil) != c.kept {
			t.Errorf("%s: %v; the connection is kept: %t, want %t", name, err, s.Nodes.Session(name) != nil, c.kept)
		}
	}
}
