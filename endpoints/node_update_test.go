package endpoints

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// stored returns the row of a node.
func stored(s *server, id string) *structs.Node { return state.Node(s.store.Read(), id) }

// TestNodeUpdate_HasTheNodeRegister: a node of an earlier version registers after this error.
func TestNodeUpdate_HasTheNodeRegister(t *testing.T) {
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
			must(s, structs.NodeRegister, aRegistration("n1"))
			must(s, structs.NodeRegister, aRegistration("n2"))
			row, before := stored(s, "n1"), s.raft.written()
			refused(s, c.want, structs.NodeUpdate, &structs.NodeUpdateRequest{
				NodeID: c.id, SecretID: c.secret, Attributes: map[string]string{"kernel.name": "plan9"},
			})
			if n := s.raft.written() - before; n != 0 || stored(s, "n1") != row {
				t.Errorf("%d log entries", n)
			}
		})
	}
}
