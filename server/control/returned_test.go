package control

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
)

// A node that was deleted and is back has volumes of which it cannot let go. All others are attached and
// detached meanwhile, once no node of a restored state is waited for.
func TestControllers_WaitForTheVolumesOfAReturnedNodeAlone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		put(w, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: time.Minute})
		w.addNode("n1", true)
		w.addNode("n2", true)
		for _, v := range []string{"stuck", "freed", "other"} {
			w.addVolume(aVolume(v, structs.VolumeReady))
		}
		w.log.MarkRestored(w.t, 1)
		held := func(volume string) structs.CSIHeldClaim {
			return structs.CSIHeldClaim{
				CSIClaimKey: structs.CSIClaimKey{Namespace: "default", VolumeID: volume, AllocID: "gone"},
			}
		}
		put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{
			Node:      &structs.Node{ID: "back", SecretID: "s", Name: "back", Status: structs.NodeReady},
			Inventory: &structs.NodeInventory{Held: []structs.CSIHeldClaim{held("stuck"), held("freed")}},
		})
		wantAttached := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, c := range w.called(attachMethod) {
				got = append(got, c.req.(*nodecalls.ClientCSIAttachRequest).ExternalID)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: attached %v, want %v", when, got, want)
			}
		}

		stop := w.runLoop("controllers")
		defer stop()
		w.addClaim("other", "a1", "n1")
		w.addClaim("stuck", "a2", "n2")
		w.addClaim("freed", "a3", "n2")
		w.accounted("n1")
		wantAttached("one node of the restored state has not reported")
		w.accounted("n2")
		wantAttached("only the returned node has not let go", "ext-other")
		w.release("other", "a1")
		synctest.Wait()
		if calls := w.called(detachMethod); len(calls) != 1 {
			t.Errorf("detached: %+v", calls)
		}

		put(w, fsm.NodeLeftovers, &structs.NodeLeftoversUpdate{
			NodeID: "back",
			Still:  []structs.NodeLeftover{{Namespace: "default", VolumeID: "stuck"}},
		})
		wantAttached("it has let go of one", "ext-other", "ext-freed")
		w.accounted("back")
		wantAttached("it has let go of both", "ext-other", "ext-freed", "ext-stuck")
	})
}

// The node of a volume is deleted before the volume: the reason of the wait leads to the way out.
func TestControllers_SayThatNothingIsWhereTheVolumeIs(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		place := func(id string) *structs.CSITopology {
			return &structs.CSITopology{Segments: map[string]string{"zone": id}}
		}
		for _, id := range []string{"n1", "n2"} {
			w.addNode(id, true)
			half := *csi.Instance(w.Store.Read(), "pl", structs.CSIKindNode, id)
			half.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + id, AccessibleTopology: place(id)}
			put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
				NodeID:  id,
				Upserts: []*structs.CSIPluginInstance{&half},
			})
		}
		v := aVolume("v", structs.VolumeReady)
		v.Topologies = []*structs.CSITopology{place("n2")}
		w.addVolume(v)
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		put(w, fsm.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n2"}})
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		e := w.volume("v").LastError
		if e == nil || !strings.Contains(e.Message, "volume v is in zone=n2, and no node there runs plugin pl") ||
			!strings.Contains(e.Message, "berth volume deregister -force v") {
			t.Errorf("it waits because of %+v", e)
		}
		if calls := w.called(deleteMethod); len(calls) != 0 {
			t.Errorf("called %+v", calls)
		}
	})
}
