package structs

import (
	"strings"
	"testing"
)

// A report without task states keeps the stored ones, also if another of its texts is cut.
func TestAllocClientUpdateBounded_AddsNoTaskStates(t *testing.T) {
	u := &AllocClientUpdate{ID: "a", ClientDescription: strings.Repeat("x", MaxText+1)}
	bounded := u.Bounded()
	if bounded == u || bounded.TaskStates != nil {
		t.Errorf("the task states are %#v", bounded.TaskStates)
	}
}
