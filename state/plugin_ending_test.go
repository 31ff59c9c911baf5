package state_test

import (
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// The servers learn that a node makes a call no more, and that it makes the call again.
func TestInstance_AReportWithOtherEndingCallsIsAnotherOne(t *testing.T) {
	ending := func(rpcs ...string) *structs.CSIPluginInstance {
		i := &structs.CSIPluginInstance{CSIInfo: structs.CSIInfo{PluginID: "p", Healthy: true}}
		for _, rpc := range rpcs {
			i.EndingCalls = append(i.EndingCalls, &structs.CSIEndingCall{RPC: rpc, Time: 1})
		}
		return i
	}
	if !csi.SameInstance(ending(), ending()) || !csi.SameInstance(ending("a"), ending("a")) {
		t.Error("equal reports differ")
	}
	if csi.SameInstance(ending(), ending("a")) || csi.SameInstance(ending("a"), ending()) ||
		csi.SameInstance(ending("a"), ending("b")) {
		t.Error("other calls are the same report")
	}

	is, none := csi.TallyInstance(ending("a", "b")), csi.TallyInstance(ending())
	if is.Ending != 1 || none.Ending != 0 || is.Minus(is).Plus(is) != is {
		t.Errorf("got the counts %+v and %+v", is, none)
	}
}
