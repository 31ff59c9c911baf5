package csi_test

import (
	"fmt"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// placedStorage answers a list like a driver of local storage: each volume is on the node.
func placedStorage(zone string, size int64, ids ...string) func(string, any, any) error {
	return func(_ string, req, resp any) error {
		if _, lists := req.(*nodecalls.ClientCSIListRequest); !lists {
			return nil
		}
		for _, id := range ids {
			page := resp.(*nodecalls.ClientCSIListResponse)
			page.Volumes = append(page.Volumes, &structs.CSIVolumeExternalStub{
				ExternalID:    id,
				CapacityBytes: size,
				Topologies:    []*structs.CSITopology{{Segments: map[string]string{"zone": zone}}},
			})
		}
		return nil
	}
}

// A volume that exists is registered with the place and the size that its plugin tells.
func TestVolumeRegister_LearnsThePlaceAndTheSize(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*structs.CSIVolume)
		place string
		size  int64
	}{
		"nothing is given": {func(*structs.CSIVolume) {}, "map[zone:b]", 5 << 20},
		"its place is given": {func(v *structs.CSIVolume) {
			v.RequestedTopologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{
				{Segments: map[string]string{"zone": "a"}}}}
		}, "map[zone:a]", 0},
		"another place is preferred": {func(v *structs.CSIVolume) {
			v.RequestedTopologies = &structs.CSITopologyRequest{Preferred: []*structs.CSITopology{
				{Segments: map[string]string{"zone": "a"}}}}
		}, "map[zone:b]", 5 << 20},
		"it is to be larger": {func(v *structs.CSIVolume) { v.RequestedCapacityMin = 6 << 20 },
			"map[zone:b]", 0},
		"the plugin does not list it": {func(v *structs.CSIVolume) { v.ExternalID = "hidden" }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := endpointstest.New(t)
			s.AddNode("n1", "a").Answer = placedStorage("a", 4<<20, "other")
			s.AddNode("n2", "b").Answer = placedStorage("b", 5<<20, "ext")
			v := endpointstest.Volume("v")
			v.RequestedCapacityMin = 1 << 20
			v.ExternalID = "ext"
			c.edit(v)
			endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
			row := volumeRow(s, "v")
			place := ""
			for _, p := range row.Topologies {
				place += fmt.Sprint(p.Segments)
			}
			if place != c.place || row.Capacity != c.size || row.Expands() {
				t.Errorf("it is in %q with %d bytes", place, row.Capacity)
			}
		})
	}
}

// The plugin describes a volume once: the row keeps its place and its size.
func TestVolumeRegister_AsksForThePlaceOnce(t *testing.T) {
	s := endpointstest.New(t)
	answer, lists := placedStorage("b", 5<<20, "ext"), 0
	s.AddNode("n1", "b").Answer = func(method string, req, resp any) error {
		if method == nodecalls.ClientCSIControllerList.Name {
			lists++
		}
		return answer(method, req, resp)
	}
	v := endpointstest.Volume("v")
	v.RequestedCapacityMin = 1 << 20
	v.ExternalID = "ext"
	for range 2 {
		endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
	}
	if lists != 1 || volumeRow(s, "v").Capacity != 5<<20 {
		t.Errorf("it was asked %d times, and the volume has %d bytes", lists, volumeRow(s, "v").Capacity)
	}
}

// Nothing can delete a volume whose node was deleted: the request ends with the way out.
func TestVolumeDelete_OfAVolumeWhoseNodeIsGoneNamesTheWayOut(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "b").Answer = placedStorage("b", 5<<20, "ext")
	v := endpointstest.Volume("v")
	v.RequestedCapacityMin = 1 << 20
	v.ExternalID = "ext"
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
	endpointstest.MustPropose(s, fsm.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n2"}})
	remove := &structs.CSIVolumeDeleteRequest{ID: "v", AtOnce: true}
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDelete, remove)
	endpointstest.WantText(t, err, "volume v is in zone=b, and no node there runs plugin pl")
	endpointstest.WantText(t, err, "its data is gone, too")
	endpointstest.WantText(t, err, "berth volume deregister -force v")
	endpointstest.Must(s, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v", Force: true})
}

// A controller that is in no place, as of storage that is not in the nodes, deletes a volume of any place.
func TestVolumeDelete_AControllerWithoutAPlaceDeletesAVolumeOfAnyPlace(t *testing.T) {
	config := endpointstest.QuickSettings()
	config.VolumeTimeout = time.Millisecond // nothing carries the deletion out
	s := endpointstest.New(t, config)
	s.AddNode("n1", "a")
	s.AddNode("n2", "b")
	v := endpointstest.ReadyVolume("v")
	v.Topologies = []*structs.CSITopology{{Segments: map[string]string{"zone": "b"}}}
	endpointstest.MustPropose(s, fsm.VolumePut, endpointstest.RegisterRequest(v))
	half := *csi.Instance(s.Store.Read(), "pl", structs.CSIKindNode, "n2")
	half.NodeInfo = &structs.CSINodeInfo{ID: "ext-n2"}
	endpointstest.MustPropose(s, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:  "n2",
		Upserts: []*structs.CSIPluginInstance{&half},
	})
	if csi.SurelyPlaceless(s.Store.Read(), volumeRow(s, "v")) == "" {
		t.Fatal("a node is in the zone of the volume")
	}
	remove := &structs.CSIVolumeDeleteRequest{ID: "v", AtOnce: true}
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeDelete, remove)
	if v := volumeRow(s, "v"); v.State != structs.VolumeDeleting {
		t.Errorf("it is %s", v.State)
	}
}
