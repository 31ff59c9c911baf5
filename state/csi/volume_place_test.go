package csi_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// localNode registers a node with the node half of a plugin of local storage.
func (w *fixture) localNode(id string) {
	half := anInstance("p", structs.CSIKindNode, true)
	half.NodeInfo.AccessibleTopology = nodeAndZone(id, "z-"+id)
	w.Node(id, half)
}

func nodeAndZone(node, zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"node": node, "zone": zone}}
}

// A volume on the disk of a node that was deleted is gone with it. Nothing tells that of a node that is down,
// or whose plugin is stopped.
func TestPlaceless_IsAVolumeWhoseNodeIsGone(t *testing.T) {
	none := func(*fixture) {}
	down := func(w *fixture) { w.Status(structs.NodeDown, "n2") }
	gone := func(w *fixture) {
		do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n2"}})
	}
	stopped := func(w *fixture) {
		do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:       "n2",
			Removes:      []structs.CSIInstanceKey{{PluginID: "p", Kind: structs.CSIKindNode}},
			WriteOptions: w.Now(),
		})
	}
	goneAndNew := func(w *fixture) {
		gone(w)
		half := anInstance("p", structs.CSIKindNode, false)
		half.NodeInfo = nil
		w.Node("n3", half)
	}
	goneAndPlain := func(w *fixture) {
		gone(w)
		do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}})
		w.Node("n3", anInstance("p", structs.CSIKindNode, true))
	}
	local := zoneOf("n2")
	inZone := &structs.CSITopology{Segments: map[string]string{"Zone": "z-n2"}}
	for name, c := range map[string]struct {
		places     []*structs.CSITopology
		change     func(*fixture)
		gone, sure bool
	}{
		"its node is there":            {[]*structs.CSITopology{local}, none, false, false},
		"its zone is there":            {[]*structs.CSITopology{inZone}, none, false, false},
		"its node is down":             {[]*structs.CSITopology{local}, down, false, false},
		"its node was deleted":         {[]*structs.CSITopology{local}, gone, true, true},
		"its zone was deleted":         {[]*structs.CSITopology{inZone}, gone, true, true},
		"another place has a node":     {[]*structs.CSITopology{local, zoneOf("n1")}, gone, false, false},
		"two nodes are in half of it":  {[]*structs.CSITopology{nodeAndZone("n2", "z-n1")}, none, true, true},
		"the plugin of its node stops": {[]*structs.CSITopology{local}, stopped, true, false},
		"it is everywhere":             {nil, gone, false, false},
		"it is in no special place":    {[]*structs.CSITopology{{}}, gone, false, false},
		"a node has not told":          {[]*structs.CSITopology{local}, goneAndNew, false, false},
		"no node tells a place":        {[]*structs.CSITopology{local}, goneAndPlain, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.localNode("n1")
			w.localNode("n2")
			w.MustPut(func(v *structs.CSIVolume) { v.Topologies = c.places })
			c.change(w)
			tx := w.Store.Read()
			v := w.VolumeRow()
			why := csi.Placeless(tx, v)
			sure := csi.SurelyPlaceless(tx, v)
			if (why != "") != c.gone || (sure != "") != c.sure || csi.Unschedulable(tx, v) != why {
				t.Errorf("%q, surely %q, blocked %q", why, sure, csi.Unschedulable(tx, v))
			}
			var listed structs.CSIVolumeListStub
			csi.VolumeStubs(tx)(v, &listed)
			if csi.VolumeStub(tx, v).Schedulable == c.gone || listed.Schedulable == c.gone {
				t.Error("a list or the volume says otherwise")
			}
		})
	}
}

func TestPlaceless_NamesThePlaceAndTheWayOut(t *testing.T) {
	w := newFixture(t)
	w.localNode("n1")
	v := w.MustPut(func(v *structs.CSIVolume) {
		v.Topologies = []*structs.CSITopology{nodeAndZone("n2", "b"), zoneOf("n3")}
	})
	why := csi.Placeless(w.Store.Read(), v)
	if !strings.Contains(why, "volume v is in node=n2,zone=b or node=n3, and no node there runs plugin p") {
		t.Errorf("got %q", why)
	}
	if want := "berth volume deregister -force v"; csi.GoneCommand(v) != want {
		t.Errorf("got %q", csi.GoneCommand(v))
	}
	made := *v
	made.ExternalID = ""
	if why := csi.Placeless(w.Store.Read(), &made); why != "" {
		t.Errorf("it is not made yet: %q", why)
	}
}
