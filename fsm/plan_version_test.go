package fsm

import (
	"testing"

	"berth/structs"
)

// An older server would refuse a plugin on a node that takes nothing else.
func TestNeeds_CountsReturnedPlugins(t *testing.T) {
	for returns, want := range map[bool]int{false: 0, true: ReturnedPluginsSince} {
		entry, err := PlanApply.Encode(&structs.Plan{ReturnsPlugins: returns})
		if err != nil {
			t.Fatal(err)
		}
		if got := PlanApply.Needs(entry); got != want {
			t.Errorf("a plan that returns plugins (%v) needs version %d, want %d", returns, got, want)
		}
	}
}

// An older server would store the allocation without the cause.
func TestNeeds_CountsStopCauses(t *testing.T) {
	for cause, want := range map[structs.StopCause]int{"": 0, structs.StopReplaced: StopCausesSince} {
		entry, err := PlanApply.Encode(&structs.Plan{Stop: []*structs.PlanStop{{AllocID: "a", Cause: cause}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := PlanApply.Needs(entry); got != want {
			t.Errorf("a stop of cause %q needs version %d, want %d", cause, got, want)
		}
	}
}

// An older server would return the plugins.
func TestNeeds_CountsPluginsThatStayOff(t *testing.T) {
	for off, want := range map[bool]int{false: PlacementSince, true: PluginsOffSince} {
		entry, err := NodeDrained.Encode(&structs.NodeDrainedUpdate{
			Nodes: []structs.DrainedNode{{NodeID: "n1"}, {NodeID: "n2", PluginsOff: off}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := NodeDrained.Needs(entry); got != want {
			t.Errorf("the end of a drain that keeps plugins off (%v) needs version %d, want %d", off, got, want)
		}
	}
}
