package feasible

import (
	"testing"

	"berth/structs"
)

// Any form of a boolean that a registration accepts has its meaning.
func TestDistinctHosts_MayBeOff(t *testing.T) {
	for text, distinct := range map[string]bool{
		"": true, "1": true, "T": true,
		"false": false, "F": false, "0": false,
	} {
		c := &structs.Constraint{Operand: structs.ConstraintDistinctHosts, RTarget: text}
		if got := wantsDistinct([]*structs.Constraint{c}); got != distinct {
			t.Errorf("%q: got %t", text, got)
		}
	}
}
