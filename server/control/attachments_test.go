package control

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestDuty_D5_ADetachHasTheSecretsOfItsAttach(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		stop := w.runLoop("controllers")
		defer stop()
		w.addClaim("v", "a1", "n1")
		synctest.Wait()
		other := aVolume("v", structs.VolumeReady)
		other.Secrets = structs.Secrets{"k": "rotated"}
		w.addVolume(other)
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}})
		synctest.Wait()
		calls := w.called(detachMethod)
		if len(calls) != 1 ||
			calls[0].req.(*nodecalls.ClientCSIDetachRequest).Secrets["k"] != "v" {
			t.Errorf("%d calls, want one with the secrets of the attach", len(calls))
		}
	})
}

func TestDuty_G2_G13_ADetachNamesItsNodeThoughTheNodeIsGone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		stop := w.runLoop("controllers")
		defer stop()
		w.addClaim("v", "a2", "n2")
		synctest.Wait()
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: structs.NodeDown})
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{
				Claims:   []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a2"}},
				Operator: "its power is off",
			})
		synctest.Wait()
		calls := w.called(detachMethod)
		if len(calls) != 1 || calls[0].node != "n1" ||
			calls[0].req.(*nodecalls.ClientCSIDetachRequest).ExternalNodeID != "ext-n2" {
			t.Errorf("detached with %+v", calls)
		}
		if w.attachment("v", "n2") != nil {
			t.Error("attachment still exists")
		}
	})
}

// A plugin has its controller on the node of the volume, on another node, or none. A node without the node
// half may have the controller. The plugin without a controller is not called, and its claims are granted.
func TestDuty_A1_AVolumeIsUsedInEachShapeOfItsPlugin(t *testing.T) {
	half := func(kind structs.CSIKind, node string, needsController bool) *structs.CSIPluginInstance {
		i := &structs.CSIPluginInstance{
			Kind:   kind,
			NodeID: node,
			CSIInfo: structs.CSIInfo{
				PluginID:                 "pl",
				Provider:                 "pl.csi",
				Healthy:                  true,
				RequiresControllerPlugin: needsController,
			},
		}
		if kind == structs.CSIKindNode {
			i.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + node}
		} else {
			i.ControllerInfo = &structs.CSIControllerInfo{SupportsAttachDetach: true}
		}
		return i
	}
	const nodeHalf, controller = structs.CSIKindNode, structs.CSIKindController
	for name, c := range map[string]struct {
		halves []*structs.CSIPluginInstance
		called string // the node whose controller attaches the volume to n1
	}{
		"both halves in one place": {[]*structs.CSIPluginInstance{
			half(nodeHalf, "n1", true), half(controller, "n1", true)}, "n1"},
		"a controller elsewhere": {[]*structs.CSIPluginInstance{
			half(nodeHalf, "n1", true), half(controller, "n2", true)}, "n2"},
		"no controller": {[]*structs.CSIPluginInstance{half(nodeHalf, "n1", false)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				for _, id := range []string{"n1", "n2"} {
					w.addPluginNode(id, c.halves)
				}
				w.addVolume(aVolume("v", structs.VolumeReady))
				stop := w.runLoop("controllers")
				defer stop()
				w.addClaim("v", "a1", "n1")
				synctest.Wait()
				var called []string
				for _, call := range w.called(attachMethod) {
					called = append(called, call.node)
				}
				if strings.Join(called, " ") != c.called {
					t.Errorf("called the controllers of %q", called)
				}
				if a := w.attachment("v", "n1"); (a != nil) != (c.called != "") ||
					a != nil && a.State != structs.AttachmentAttached {
					t.Errorf("the attachment is %+v", a)
				}
				w.check()
			})
		})
	}
}

// addPluginNode registers a node with those of the halves of plugins that are its own.
func (w *testEnv) addPluginNode(id string, halves []*structs.CSIPluginInstance) {
	w.t.Helper()
	req := &structs.NodeRegisterRequest{
		Node: &structs.Node{ID: id, SecretID: "s", Name: id, Status: structs.NodeReady},
	}
	for _, h := range halves {
		if h.NodeID == id {
			req.CSI = append(req.CSI, h)
		}
	}
	put(w, fsm.NodeRegister, req)
}

// Each call after the creation has the ID that the plugin has answered, and not the name. An attach has the
// node's ID at the plugin, the context of the volume and the use of the claim.
func TestDuty_F12_G2_G4_CallsHaveTheIDsAndTheContextOfThePlugin(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == createMethod {
				return &nodecalls.ClientCSICreateResponse{
					ExternalID: "x1",
					Capacity:   10,
					Context:    map[string]string{"pool": "fast"},
				}, nil
			}
			return nil, nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		w.addVolume(aVolume("v", structs.VolumeCreating))
		synctest.Wait()
		w.addClaim("v", "a1", "n1")
		synctest.Wait()
		w.unclaim("v", "a1")
		synctest.Wait()
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		synctest.Wait()

		want := &nodecalls.ClientCSIAttachRequest{
			PluginID:       "pl",
			Provider:       "pl.csi",
			ExternalID:     "x1",
			ExternalNodeID: "ext-n1",
			AccessMode:     structs.CSIMultiNodeMultipleWriter,
			AttachmentMode: structs.CSIFileSystem,
			VolumeContext:  map[string]string{"pool": "fast"},
			Secrets:        structs.Secrets{"k": "v"},
			NodeEpoch:      structs.NodeEpoch{Epoch: state.Node(w.Store.Read(), "n1").Epoch},
		}
		if got := w.called(attachMethod); len(got) != 1 || !reflect.DeepEqual(got[0].req, want) {
			t.Errorf("attached with %+v, want %+v", got, want)
		}
		detach := w.called(detachMethod)[0].req.(*nodecalls.ClientCSIDetachRequest)
		if detach.ExternalID != "x1" || detach.ExternalNodeID != "ext-n1" {
			t.Errorf("detached with %+v", detach)
		}
		if got := w.called(deleteMethod)[0].req.(*nodecalls.ClientCSIDeleteRequest); got.ExternalID != "x1" {
			t.Errorf("deleted with %+v", got)
		}
	})
}

// A down node whose claims were not released keeps its volumes. No timer detaches them.
func TestDuty_G12_NothingIsDetachedFromANodeThatIsOnlyDown(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		for _, name := range []string{"controllers", "reaper", "gc"} {
			stop := w.runLoop(name)
			defer stop()
		}
		w.addClaim("v", "a2", "n2")
		synctest.Wait()
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: structs.NodeDown})
		after(48 * time.Hour)
		if n := len(w.called(detachMethod)); n != 0 || w.attachment("v", "n2") == nil {
			t.Errorf("%d detaches from a node that may still write", n)
		}
	})
}

// An attach to a node at the limit of its plugin is made when the volume that leaves the node is detached, or
// when the detach fails. The one of another node does not wait.
func TestAttach_WaitsForADetachAtTheLimit(t *testing.T) {
	for name, failure := range map[string]error{
		"until it succeeds": nil,
		"until it fails":    structs.Preconditionf("it is busy"),
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				for _, n := range []string{"n1", "n2"} {
					w.addNode(n, true)
					w.limitVolumes(n, 1)
				}
				for _, v := range []string{"old", "new", "elsewhere"} {
					w.addVolume(aVolume(v, structs.VolumeReady))
				}
				answer := make(chan error)
				w.setAnswer(func(c nodeCall) (any, error) {
					if c.method == detachMethod {
						return nil, <-answer
					}
					return nil, nil
				})
				stop := w.runLoop("controllers")
				defer stop()
				defer close(answer) // before the loop ends, also when the test fails
				w.addClaim("old", "a1", "n1")
				synctest.Wait()
				w.unclaim("old", "a1")
				w.addClaim("new", "a2", "n1")
				w.addClaim("elsewhere", "a3", "n2")
				synctest.Wait()
				if a := w.attachment("new", "n1"); a.State != structs.AttachmentAttaching {
					t.Fatalf("the new volume is %s while the old one is detached", a.State)
				}
				if a := w.attachment("elsewhere", "n2"); a.State != structs.AttachmentAttached {
					t.Errorf("the volume of another node is %s", a.State)
				}
				answer <- failure
				synctest.Wait()
				if a := w.attachment("new", "n1"); a.State != structs.AttachmentAttached {
					t.Errorf("the new volume is %s after the detach", a.State)
				}
				w.check()
			})
		})
	}
}

// limitVolumes makes the half of a node report that the node takes so many volumes.
func (w *testEnv) limitVolumes(node string, most int64) {
	w.t.Helper()
	i := csi.Instance(w.Store.Read(), "pl", structs.CSIKindNode, node).Copy()
	i.NodeInfo.MaxVolumes = most
	put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:  node,
		Upserts: []*structs.CSIPluginInstance{i},
	})
}
