package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// TestReport_BoundsItsAnswer puts many faulty rows, and one with a long name.
func TestReport_BoundsItsAnswer(t *testing.T) {
	s := state.New()
	_ = s.Write(1, func(tx *state.WriteTx) error {
		schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: strings.Repeat("long", 1000)})
		for i := range schema.MostFaults + 6 {
			schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: fmt.Sprintf("stray%d", i)})
		}
		return nil
	})
	faults := state.Check(s.Read())
	if len(faults) != schema.MostFaults+1 || faults[schema.MostFaults] != "and 7 more" {
		t.Errorf("got %d lines, the last is %q", len(faults), faults[len(faults)-1])
	}
	for _, fault := range faults {
		if len(fault) > schema.MostFaultBytes+len("…") {
			t.Errorf("a fault has %d bytes", len(fault))
		}
	}
}
