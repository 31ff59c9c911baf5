// Package placestest makes the rows of plugins whose storage has several places, for tests.
package placestest

import (
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/structs"
)

// HalfDown registers the nodes n1 and n2 with halves of the plugin p, whose storage is local to each node.
// The controller of n2 is not healthy.
func HalfDown(t testing.TB, s *state.Store) {
	t.Helper()
	for i, id := range []string{"n1", "n2"} {
		info := structs.CSIInfo{
			PluginID:           "p",
			Provider:           "p.csi",
			Healthy:            id == "n1",
			RequiresTopologies: true,
		}
		controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: id, CSIInfo: info}
		controller.ControllerInfo = &structs.CSIControllerInfo{SupportsListSnapshots: true}
		node := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: id, CSIInfo: info}
		node.NodeInfo = &structs.CSINodeInfo{
			ID:                 id,
			AccessibleTopology: &structs.CSITopology{Segments: map[string]string{"node": id}},
		}
		err := s.Write(uint64(i+1), func(tx *mvcc.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{
				Node: &structs.Node{ID: id, SecretID: "s", Name: id, Status: structs.NodeReady},
				CSI:  []*structs.CSIPluginInstance{controller, node},
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
