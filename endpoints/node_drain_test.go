package endpoints

import (
	"maps"
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
)

// The notes of a cancellation stand beside those of the drain, and a change without notes keeps them. Without
// a drain there is nothing to note.
func TestNodeDrain_KeepsItsNotes(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	drain := func(spec *structs.DrainSpec, meta map[string]string) {
		t.Helper()
		must(s, structs.NodeDrain, &structs.NodeDrainRequest{NodeID: "n1", DrainSpec: spec, Meta: meta})
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		last := state.Node(s.store.Read(), "n1").LastDrain
		if !maps.Equal(last.Meta, want) {
			t.Errorf("%s: the drain has the notes %v, want %v", when, last.Meta, want)
		}
	}
	drain(&structs.DrainSpec{}, map[string]string{"message": "disk"})
	drain(nil, map[string]string{"cancel_message": "later"})
	check("after the end", map[string]string{"message": "disk", "cancel_message": "later"})
	drain(nil, map[string]string{"cancel_message": "again"})
	check("after another end", map[string]string{"message": "disk", "cancel_message": "later"})
	drain(&structs.DrainSpec{}, nil)
	drain(nil, map[string]string{"cancel_message": "later"})
	check("without notes of its own", map[string]string{"cancel_message": "later"})
	drain(&structs.DrainSpec{}, map[string]string{"message": strings.Repeat("x", structs.MaxDrainMeta/2)})
	refused(s, structs.KindInvalid, structs.NodeDrain, &structs.NodeDrainRequest{
		NodeID: "n1",
		Meta:   map[string]string{"cancel_message": strings.Repeat("x", structs.MaxDrainMeta/2)},
	})
	drain(nil, nil)
	drain(&structs.DrainSpec{}, map[string]string{"message": "disk"})
	drain(&structs.DrainSpec{IgnoreSystemJobs: true}, nil)
	check("after a change without notes", map[string]string{"message": "disk"})
	drain(&structs.DrainSpec{}, map[string]string{"message": "board"})
	check("after a change with notes", map[string]string{"message": "board"})
	drain(nil, nil)
	drain(&structs.DrainSpec{}, nil)
	check("of the next drain", nil)
}
