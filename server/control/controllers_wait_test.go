package control

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/structs"
)

// report sends a node's instances of the plugin again.
func (w *testEnv) report(node string, healthy bool, zone string) {
	w.t.Helper()
	info := structs.CSIInfo{PluginID: "pl", Healthy: healthy, RequiresControllerPlugin: true}
	half := &structs.CSIPluginInstance{
		Kind:    structs.CSIKindNode,
		NodeID:  node,
		CSIInfo: info,
	}
	half.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + node, AccessibleTopology: at(zone)}
	controller := &structs.CSIPluginInstance{
		Kind:    structs.CSIKindController,
		NodeID:  node,
		CSIInfo: info,
	}
	controller.ControllerInfo = &structs.CSIControllerInfo{
		SupportsCreateDelete: true,
		SupportsAttachDetach: true,
	}
	put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:  node,
		Upserts: []*structs.CSIPluginInstance{half, controller},
	})
}

func at(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}

// A call without a controller is made when anything changes that provides one.
func TestControllers_CallWhenAControllerIsReachable(t *testing.T) {
	inZone := func(zone string) *structs.CSIVolume {
		v := aVolume("v", structs.VolumeReady)
		v.RequestedTopologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{at(zone)}}
		return v
	}
	for name, c := range map[string]struct{ away, back func(w *testEnv) }{
		"the controller is healthy again": {func(w *testEnv) { w.report("n1", false, "a") },
			func(w *testEnv) { w.report("n1", true, "a") }},
		"its node is where the volume is": {func(w *testEnv) { w.report("n1", true, "b") },
			func(w *testEnv) { w.report("n1", true, "a") }},
		"its node no longer reports another zone": {func(w *testEnv) { w.report("n1", true, "b") },
			func(w *testEnv) {
				put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
					NodeID:  "n1",
					Removes: []structs.CSIInstanceKey{{PluginID: "pl", Kind: structs.CSIKindNode}},
				})
			}},
		"its node is ready": {
			func(w *testEnv) {
				put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
					NodeIDs: []string{"n1"},
					Status:  structs.NodeDisconnected,
				})
			},
			func(w *testEnv) {
				put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeReady})
			}},
		"the volume is elsewhere": {func(w *testEnv) { w.addVolume(inZone("c")) },
			func(w *testEnv) { w.addVolume(inZone("a")) }},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.addNode("n2", false)
				w.report("n1", true, "a")
				w.addVolume(inZone("a"))
				stop := w.runLoop("controllers")
				defer stop()
				c.away(w)
				w.addClaim("v", "a1", "n2")
				after(time.Hour)
				if a := w.attachment("v", "n2"); len(w.called(attachMethod)) != 0 || a == nil || a.LastError == nil {
					t.Fatalf("%d calls for attachment %+v without a controller", len(w.called(attachMethod)),
						a)
				}
				c.back(w)
				synctest.Wait()
				if a := w.attachment("v", "n2"); a.State != structs.AttachmentAttached {
					t.Errorf("state is still %s", a.State)
				}
			})
		})
	}
}
