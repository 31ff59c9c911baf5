package scenario

import (
	"context"
	"slices"
	"sync"
	"testing"

	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

// local returns a plugin whose volumes are on the node whose controller created them.
func local(zone string) cluster.Plugin {
	return cluster.Plugin{
		ID:         "p",
		Controller: true,
		Local:      true,
		Zone:       zone,
	}
}

func place(zone string) *structs.CSITopologyRequest {
	return &structs.CSITopologyRequest{
		Required: []*structs.CSITopology{{Segments: map[string]string{"zone": zone}}},
	}
}

// A plugin that runs a controller on each node is called where the volume is to be, or is, and nowhere else.
func TestNodeLocalVolume_IsCreatedUsedAndDeletedOnItsNode(t *testing.T) {
	s := begin(t, 1)
	nodes := map[string]*cluster.Node{}
	for _, zone := range []string{"a", "b", "c"} {
		nodes[zone] = s.node(zone, local(zone))
	}
	for id, zone := range map[string]string{"first": "b", "second": "c"} {
		cluster.Must(s.Cluster, s.Leader(), structs.CSIVolumeCreate,
			&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
				ID:                    id,
				Name:                  id,
				PluginID:              "p",
				RequestedCapabilities: oneWriter,
				RequestedTopologies:   place(zone),
			}}})
		if log := s.storage.Log(); !slices.Contains(log, zone+" create "+id) {
			t.Errorf("%s was not made on %s: %v", id, zone, log)
		}
	}
	s.job("db", 1, "first")
	if a := s.runs("db", 1)[0]; a.NodeID != nodes["b"].ID {
		t.Errorf("the job is not where its volume is")
	}
	s.mounted("vol-first", "b "+s.runs("db", 1)[0].ID)
	s.stop("db")
	s.ended("db")

	nodes["b"].Off()
	s.status(nodes["b"], structs.NodeDown)
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Patience)
	defer cancel()
	var deleting sync.WaitGroup
	var failed error
	deleting.Go(func() {
		_, failed = rpc.Call(ctx, s.Leader(), structs.CSIVolumeDelete,
			&structs.CSIVolumeDeleteRequest{ID: "first"})
	})
	s.Rows(s.Leader(), "the deletion waits and says for what", func(tx *state.ReadTx) bool {
		v := state.Volume(tx, structs.DefaultNamespace, "first")
		return v != nil && v.State == structs.VolumeDeleting && v.LastError != nil
	})
	s.says(state.Volume(s.Leader().Store().Read(), structs.DefaultNamespace, "first").LastError.Message,
		"no controller of plugin p")
	if !s.storage.Exists("vol-first") {
		t.Error("it is gone though its node is away")
	}
	s.Revive(nodes["b"], cluster.WithPlugin(local("b")))
	deleting.Wait()
	if failed != nil {
		t.Errorf("deleting: %v (%s)", failed, structs.KindOf(failed))
	}
	if s.storage.Exists("vol-first") || !s.storage.Exists("vol-second") {
		t.Error("deleted is another volume than was asked for")
	}
	if log := s.storage.Log(); !slices.Contains(log, "b delete vol-first") {
		t.Errorf("it was not deleted on b: %v", log)
	}
}
