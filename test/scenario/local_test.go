package scenario

import (
	"context"
	"slices"
	"sync"
	"testing"

	"berth/rpc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/cluster"
)

// nodeLocalPlugin returns a plugin whose volumes are on the node whose controller created them.
func nodeLocalPlugin(zone string) cluster.Plugin {
	return cluster.Plugin{
		ID:         "p",
		Controller: true,
		Local:      true,
		Zone:       zone,
	}
}

func requiredZone(zone string) *structs.CSITopologyRequest {
	return &structs.CSITopologyRequest{
		Required: []*structs.CSITopology{{Segments: map[string]string{"zone": zone}}},
	}
}

// A plugin with a controller on each node is called only on the node of the volume.
func TestNodeLocalVolume_IsCreatedUsedAndDeletedOnItsNode(t *testing.T) {
	s := startStorageCluster(t, 1)
	nodes := map[string]*cluster.Node{}
	for _, zone := range []string{"a", "b", "c"} {
		nodes[zone] = s.addNode(zone, nodeLocalPlugin(zone))
	}
	for id, zone := range map[string]string{"first": "b", "second": "c"} {
		cluster.Must(s.Cluster, s.Leader(), structs.CSIVolumeCreate,
			&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
				ID: id,
				CSIVolumeSpec: structs.CSIVolumeSpec{
					ExternalName:          id,
					PluginID:              "p",
					RequestedCapabilities: oneWriter,
					RequestedTopologies:   requiredZone(zone),
				},
			}}})
		if log := s.storage.Log(); !slices.Contains(log, zone+" create "+id) {
			t.Errorf("%s was not made on %s: %v", id, zone, log)
		}
	}
	s.registerJob("db", 1, "first")
	if a := s.awaitRunning("db", 1)[0]; a.NodeID != nodes["b"].ID {
		t.Errorf("the job is not where its volume is")
	}
	s.checkMounts("vol-first", "b "+s.awaitRunning("db", 1)[0].ID)
	s.stopJob("db")
	s.awaitEnded("db")

	nodes["b"].PowerOff()
	s.awaitNodeStatus(nodes["b"], structs.NodeDown)
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Patience)
	defer cancel()
	var deleting sync.WaitGroup
	var failed error
	deleting.Go(func() {
		_, failed = rpc.Call(ctx, s.Leader(), structs.CSIVolumeDelete,
			&structs.CSIVolumeDeleteRequest{ID: "first"})
	})
	s.AwaitRows(s.Leader(), "the deletion waits with an error", func(tx *state.ReadTx) bool {
		v := csi.Volume(tx, structs.DefaultNamespace, "first")
		return v != nil && v.State == structs.VolumeDeleting && v.LastError != nil
	})
	s.checkText(csi.Volume(s.Leader().Store().Read(), structs.DefaultNamespace, "first").LastError.Message,
		"no controller of plugin p")
	if !s.storage.Exists("vol-first") {
		t.Error("the volume is gone although its node is not there")
	}
	s.Revive(nodes["b"], cluster.WithPlugin(nodeLocalPlugin("b")))
	deleting.Wait()
	if failed != nil {
		t.Errorf("deleting: %v (%s)", failed, structs.KindOf(failed))
	}
	if s.storage.Exists("vol-first") || !s.storage.Exists("vol-second") {
		t.Error("the wrong volume was deleted")
	}
	if log := s.storage.Log(); !slices.Contains(log, "b delete vol-first") {
		t.Errorf("it was not deleted on b: %v", log)
	}
}
