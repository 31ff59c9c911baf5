package state_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

func heldOf(volume, external string) structs.CSIHeldClaim {
	return structs.CSIHeldClaim{
		CSIClaimKey:      structs.CSIClaimKey{Namespace: "default", VolumeID: volume, AllocID: "gone"},
		PluginID:         "p",
		ExternalVolumeID: external,
	}
}

// returnedNode is a fixture with the volumes v, renamed and other, and the node n6, which was deleted and is
// back with an inventory.
func returnedNode(t *testing.T, inventory *structs.NodeInventory) *fixture {
	w := threeNodes(t, false)
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{aVolume("renamed", "p"), aVolume("other", "p")},
		WriteOptions: w.Now(),
	})
	n := aNode("n6")
	n.Leftovers = []structs.NodeLeftover{{Namespace: "default", VolumeID: "other"}} // no node chooses them
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         n,
		Inventory:    inventory,
		WriteOptions: w.Now(),
	})
	return w
}

// vAndRenamed has the volume v, and another one under its former name.
func vAndRenamed() *structs.NodeInventory {
	return &structs.NodeInventory{
		Held: []structs.CSIHeldClaim{heldOf("v", ""), heldOf("v", "")},
		Left: []structs.CSIHeldClaim{heldOf("former", "ext-renamed")},
	}
}

func (w *fixture) wantWaiting(when, want string) {
	w.T.Helper()
	var got []string
	for _, id := range []string{"v", "renamed", "other"} {
		if csi.VolumeRecovering(w.Store.Read(), "default", id) != "" {
			got = append(got, id)
		}
	}
	if strings.Join(got, " ") != want {
		w.T.Errorf("%s: %q wait, want %q", when, got, want)
	}
}

func (w *fixture) wantWait(volume string, says ...string) {
	w.T.Helper()
	why := csi.VolumeRecovering(w.Store.Read(), "default", volume)
	for _, s := range says {
		if !strings.Contains(why, s) {
			w.T.Errorf("it does not say %q: %s", s, why)
		}
	}
}

// After a restore of the state a returned node, too, may hold any volume.
func TestVolumeRecovering_IsAboutTheVolumesThatANodeMayHold(t *testing.T) {
	w := returnedNode(t, vAndRenamed())
	w.wantWaiting("it is back", "v renamed")
	if n := state.Node(w.Store.Read(), "n6"); len(n.Leftovers) != 2 {
		t.Errorf("its row names %v", n.Leftovers)
	}
	w.wantWait("renamed", "node name-n6 was deleted and came back, and may still have volume renamed",
		"berth node status n6", "power it off, and then: berth node purge n6")
	w.Status(structs.NodeDown, "n6")
	w.wantWaiting("it is down", "v renamed")
	w.wantWait("v", "once it is certainly off, delete it: berth node purge n6")
	w.Status(structs.NodeReady, "n6")
	changed := aNode("n6")
	changed.Meta = map[string]string{"rack": "r2"}
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: changed, WriteOptions: w.Now()})
	w.wantWaiting("it has registered again", "v renamed")

	w.Index++
	err := w.Store.Write(w.Index, func(tx *state.WriteTx) error {
		state.Recover(tx, state.New().Read(), 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.accounted("n1", "n2", "n3")
	w.wantWaiting("the state is restored", "v renamed other")
	w.wantWait("other", "the servers' state was restored from a snapshot, and node name-n6")
	w.accounted("n6")
	w.wantWaiting("all have reported", "")
}

func (w *fixture) accounted(nodes ...string) {
	w.T.Helper()
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      nodes,
		Status:       structs.NodeReady,
		Accounted:    true,
		WriteOptions: w.Now(),
	})
}

func TestNodeLeftovers_FreesWhatTheNodeHasLetGoOf(t *testing.T) {
	w := returnedNode(t, vAndRenamed())
	report := func(held ...structs.CSIHeldClaim) {
		t.Helper()
		tx := w.Store.Read()
		do(w, state.NodeLeftovers, &structs.NodeLeftoversUpdate{
			NodeID:       "n6",
			Still:        state.StillLeft(tx, state.Node(tx, "n6"), &structs.NodeInventory{Held: held, Left: vAndRenamed().Left}),
			WriteOptions: w.Now(),
		})
	}
	report(heldOf("former", "ext-renamed"), heldOf("other", ""))
	w.wantWaiting("it has let go of v", "renamed")
	report(heldOf("v", ""), heldOf("former", "ext-renamed"))
	w.wantWaiting("it has v anew", "renamed")
	report()
	w.wantWaiting("it has let go of all, but is not accounted for", "renamed")
	w.accounted("n6")
	if n := state.Node(w.Store.Read(), "n6"); n.Unaccounted || n.Leftovers != nil {
		t.Errorf("it is accounted for, and has still %v", n.Leftovers)
	}
}

// A leftover that a claim of the node covers by now is none.
func TestNodeLeftovers_AClaimCoversOne(t *testing.T) {
	w := returnedNode(t, vAndRenamed())
	w.Alloc("a6", "j", "n6")
	w.Claim(aClaim("v", "a6", wr, snw))
	covered := heldOf("v", "")
	covered.AllocID = "a6"
	tx := w.Store.Read()
	inventory := &structs.NodeInventory{Held: []structs.CSIHeldClaim{covered, heldOf("former", "ext-renamed")}}
	still := state.StillLeft(tx, state.Node(tx, "n6"), inventory)
	if len(still) != 1 || still[0].VolumeID != "former" {
		t.Errorf("it has still %v", still)
	}
}

func TestNodeLeftovers_AreBounded(t *testing.T) {
	many := vAndRenamed()
	for i := range state.MostLeftovers {
		many.Held = append(many.Held, heldOf(fmt.Sprint("more-", i), ""))
	}
	w := returnedNode(t, many)
	w.wantWaiting("it may have any", "v renamed other")
	w.wantWait("other", "node name-n6 was deleted and came back")
	tx := w.Store.Read()
	n := state.Node(tx, "n6")
	if len(n.Leftovers) != state.MostLeftovers+1 {
		t.Errorf("its row names %d volumes", len(n.Leftovers))
	}
	do(w, state.NodeLeftovers, &structs.NodeLeftoversUpdate{
		NodeID:       "n6",
		Still:        state.StillLeft(tx, n, &structs.NodeInventory{Held: many.Held[:1]}),
		WriteOptions: w.Now(),
	})
	w.wantWaiting("nobody knows whether it has let go of the others", "v renamed other")
}
