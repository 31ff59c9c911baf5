package place

import (
	"fmt"
	"testing"
	"time"

	"berth/scheduler/feasible"
	"berth/state"
	"berth/structs"
)

// TestOrigin_SpreadsOverTheFleet: evaluations begin at different nodes, with any names of nodes.
func TestOrigin_SpreadsOverTheFleet(t *testing.T) {
	for name, id := range map[string]func(int) string{
		"numbered": func(i int) string { return fmt.Sprintf("n%06d", i) },
		"random":   func(i int) string { return structs.DeriveID(uint64(i), "node") },
		"short":    func(i int) string { return fmt.Sprint("client-", i) },
	} {
		s := state.New()
		b := s.Begin()
		const n = 1000
		for i := range n {
			n := &structs.Node{ID: id(i), Name: id(i), SecretID: "s", Datacenter: "dc1", Status: structs.NodeReady}
			err := b.Apply(uint64(10+i), func(tx *state.WriteTx) error {
				return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: n})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		b.Commit()
		tx := s.Read()
		begun := map[string]bool{}
		for i := range 300 {
			e := &structs.Evaluation{ID: structs.DeriveID(uint64(i), "eval")}
			none := newPlacement(&Group{Spec: &feasible.Group{}}, 0)
			p := New(feasible.NewOutlook(tx, e, time.Time{}), Options{Enough: Enough})
			r := cyclicIter{first: p.origin(), source: p.sourceOf(&none)}
			begun[r.readNodes(1)[0].node.ID] = true
			seen := map[string]bool{}
			for few := r.readNodes(readBatch); len(few) > 0; few = r.readNodes(readBatch) {
				for _, c := range few {
					seen[c.node.ID] = true
				}
			}
			if len(seen) != n-1 {
				t.Fatalf("%s: iteration from %q yields %d nodes", name, r.first, len(seen)+1)
			}
		}
		t.Logf("%s: 300 evaluations begin at %d nodes", name, len(begun))
		if len(begun) < 150 {
			t.Errorf("%s: 300 evaluations begin at %d nodes", name, len(begun))
		}
	}
}
