package nodeconn

import (
	"slices"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/statetest"
	"berth/structs"
)

// A copy is made by a controller that reaches its source, whatever the request of the copy says.
func TestVolumeControllers_OfACopyReachItsSource(t *testing.T) {
	store := twoZones(t, &structs.CSIPluginInstance{
		Kind:   structs.CSIKindController,
		NodeID: "n1",
		CSIInfo: structs.CSIInfo{
			PluginID:       "pl",
			Healthy:        true,
			ControllerInfo: &structs.CSIControllerInfo{SupportsCreateDelete: true},
		},
	})
	statetest.Write(t, store, func(tx *state.WriteTx) error {
		schema.Volumes.Put(tx, &structs.CSIVolume{
			Namespace: "default", ID: "source",
			CSIVolumeSpec: structs.CSIVolumeSpec{ExternalID: "ext-source", PluginID: "pl"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{
				State:      structs.VolumeReady,
				Topologies: []*structs.CSITopology{at("b")},
			},
		})
		return nil
	})
	for _, required := range [][]*structs.CSITopology{nil, {at("a"), at("b")}} {
		for _, name := range []string{"c1", "c2", "c3", "c4"} { // the name spreads the calls
			v := &structs.CSIVolume{
				Namespace: "default", ID: name,
				CSIVolumeSpec: structs.CSIVolumeSpec{
					PluginID:            "pl",
					CloneID:             "source",
					RequestedTopologies: &structs.CSITopologyRequest{Required: required},
				},
				CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeCreating},
			}
			v.CloneSource = csi.CloneSource(store.Read(), v)
			got := VolumeControllers(store.Read(), v)
			if !slices.Equal(got, []string{"n2"}) {
				t.Errorf("%s in %v: called at %v", name, required, got)
			}
		}
	}
}
