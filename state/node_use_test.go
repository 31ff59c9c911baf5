package state_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/test/kit"
)

// TestNodesWithUse_GivesTheUseOfEachNode has uses of nodes with and without a row, and nodes without a use.
func TestNodesWithUse_GivesTheUseOfEachNode(t *testing.T) {
	w := &uncheckedStore{s: state.New()}
	w.do(func(tx *state.WriteTx) {
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			kit.Must(t, state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: aNode(id)}))
		}
		for i, node := range []string{"a", "c", "c0", "c1", "c2", "e", "f"} {
			schema.Allocs.Put(tx, &structs.Allocation{
				ID:        fmt.Sprint(i),
				NodeID:    node,
				Resources: &structs.Resources{CPU: 100 + i},
			})
		}
	})
	tx := w.s.Read()
	for from, want := range map[string]string{
		"":   "a b c d e",
		"c":  "c d e",
		"c1": "d e",
		"e0": "",
	} {
		var found []string
		next := state.NodesWithUse(tx, from)
		for n, use := next(); n != nil; n, use = next() {
			found = append(found, n.ID)
			if *use != state.UseOfNode(tx, n.ID) {
				t.Errorf("from %q: the use of node %s is %+v, want %+v", from, n.ID, *use, state.UseOfNode(tx, n.ID))
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("from %q: got nodes %q, want %q", from, got, want)
		}
	}
}
