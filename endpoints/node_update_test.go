package endpoints

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// nodeRow returns the row of a node.
func nodeRow(s *server, id string) *structs.Node {
	return state.Node(s.store.Read(), id)
}

// A node of an earlier version registers after this error.
func TestNodeUpdate_IsRejected(t *testing.T) {
	for name, c := range map[string]struct {
		id, secret string
		want       structs.Kind
	}{
		"its own":         {"n1", secretOf("n1"), structs.KindPrecondition},
		"a wrong secret":  {"n1", "guessed", structs.KindDenied},
		"no secret":       {"n1", "", structs.KindDenied},
		"another node's":  {"n2", secretOf("n1"), structs.KindDenied},
		"an unknown node": {"n9", secretOf("n9"), structs.KindNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			must(s, structs.NodeRegister, testRegistration("n1"))
			must(s, structs.NodeRegister, testRegistration("n2"))
			row := nodeRow(s, "n1")
			before := s.raft.written()
			refused(s, c.want, structs.NodeUpdate, &structs.NodeUpdateRequest{
				NodeID:     c.id,
				SecretID:   c.secret,
				Attributes: map[string]string{"kernel.name": "plan9"},
			})
			if n := s.raft.written() - before; n != 0 || nodeRow(s, "n1") != row {
				t.Errorf("got %d log entries, want 0 and the same row", n)
			}
		})
	}
}
