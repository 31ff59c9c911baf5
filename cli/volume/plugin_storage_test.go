package volume

import (
	"testing"

	"berth/structs"
)

// TestInstanceRows_ShowTheHealthOfTheStorage: the fault of an instance comes before that of its storage.
func TestInstanceRows_ShowTheHealthOfTheStorage(t *testing.T) {
	storage := &structs.CSIStorageHealth{Conditions: []*structs.CSIHealth{
		{Status: "STORAGE_DEGRADED", Reason: "PathLoss", Message: "one of two\npaths is down"},
		{Status: "17", Reason: "New"},
	}}
	for _, c := range []struct {
		info structs.CSIInfo
		want string
	}{
		{structs.CSIInfo{Healthy: true, HealthDescription: "healthy"}, ""},
		{structs.CSIInfo{Healthy: true, NodeInfo: &structs.CSINodeInfo{}}, ""},
		{structs.CSIInfo{Healthy: true, NodeInfo: &structs.CSINodeInfo{StorageHealth: storage}},
			"storage: STORAGE_DEGRADED PathLoss: one of two paths is down; 17 New"},
		{structs.CSIInfo{Healthy: true, EndingCalls: []*structs.CSIEndingCall{{RPC: "ListVolumes"}}},
			"ListVolumes is not called: it ended the plugin twice"},
		{structs.CSIInfo{HealthDescription: "no answer", NodeInfo: &structs.CSINodeInfo{StorageHealth: storage}},
			"no answer"},
	} {
		if got := instanceText(&c.info); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	both := &structs.CSIPlugin{
		Controllers: map[string]*structs.CSIInfo{"n": {ControllerInfo: &structs.CSIControllerInfo{
			SupportsCondition: true,
		}}},
		Nodes: map[string]*structs.CSIInfo{"n": {NodeInfo: &structs.CSINodeInfo{
			SupportsCondition: true, SupportsStorageHealth: true,
		}}},
	}
	if got := capabilities(both); got != "health, storage health" {
		t.Errorf("it can %q", got)
	}
}
