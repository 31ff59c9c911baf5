package cluster_test

import (
	"slices"
	"testing"
	"time"

	"berth/server"
	"berth/structs"
	"berth/test/cluster"
)

// cutFor is the time of a cut, in leases: the node has to renew its lease several times meanwhile.
const cutFor = 3

// TestNode_WorksThroughTheFollowers: the path between a node and the leader is cut, and all others are whole.
func TestNode_WorksThroughTheFollowers(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	c := cluster.New(t, 3, func(cfg *server.Config) {
		cfg.HeartbeatTTL = ttl
		cfg.HeartbeatGrace = 15 * time.Second
	})
	node := startNodeAgent(t, c, "n1")
	leader := c.Leader()
	c.Await("the node is with the leader", func() bool {
		return node.Servers()[0] == leader.Current().RPCAddr()
	})
	c.Net.Cut(leader.Name, "n1", "n2")
	cut := time.Now()

	storage := cluster.NewStorage(c)
	c.AddNode("n2", storage, cluster.WithPlugin(cluster.Plugin{ID: "p", Controller: true}))
	cluster.Must(c, leader, structs.CSIVolumeCreate, &structs.CSIVolumeRegisterRequest{
		Volumes: []*structs.CSIVolume{{
			ID: "v",
			CSIVolumeSpec: structs.CSIVolumeSpec{
				ExternalName: "v",
				PluginID:     "p",
				RequestedCapabilities: []*structs.CSIVolumeCapability{{
					AccessMode:     structs.CSISingleNodeWriter,
					AttachmentMode: structs.CSIFileSystem,
				}},
			},
		}},
	})
	if log := storage.Log(); !slices.Contains(log, "n2 create v") {
		t.Errorf("the controller that the leader does not reach was not called: %v", log)
	}

	c.Await("the cut has lasted for some leases", func() bool {
		length, age := node.Lease()
		if age >= length {
			t.Errorf("the lease has ended: it is of %s and has the age %s", length, age)
			return true
		}
		return time.Since(cut) > cutFor*ttl
	})
	if first := node.Servers()[0]; first == leader.Current().RPCAddr() {
		t.Error("the node talks to the leader first, which it does not reach")
	}
	c.Net.Heal()
	c.Await("the node is back at the leader", func() bool {
		return node.Servers()[0] == leader.Current().RPCAddr()
	})
}
