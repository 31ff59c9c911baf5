package scenario

import (
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/structs/storage"
	"berth/test/cluster"
)

// A node that ends its tasks with its lease loses its volume to another node, without a device and without an
// operator. A node that has no guard keeps its own.
func TestLeasePolicy_MovesAVolumeOfAGuardedNode(t *testing.T) {
	s := startStorageCluster(t, 3)
	guarded := s.addNode("guarded", attaching, cluster.WithGuard())
	bare := s.addNode("bare", attaching)
	other := s.addNode("other", attaching)
	cluster.Must(s.Cluster, s.Leader(), storage.PluginSettingsSet,
		&storage.PluginSettingsRequest{ID: "p", OnNodeLoss: structs.LossLease})
	on := func(name string) func(*structs.Job) {
		return func(j *structs.Job) {
			j.Constraints = []*structs.Constraint{{
				LTarget: "${node.unique.name}",
				RTarget: name + "|" + other.Name,
				Operand: "regexp",
			}}
		}
	}
	held := map[string]*structs.Allocation{}
	s.setEligible(other, structs.NodeIneligible)
	for _, n := range []*cluster.Node{guarded, bare} {
		s.registerVolume("v-" + n.Name)
		s.registerJob("db-"+n.Name, 1, "v-"+n.Name, on(n.Name))
		held[n.Name] = s.awaitRunning("db-"+n.Name, 1)[0]
		s.checkMounts("disk-v-"+n.Name, n.Name+" "+held[n.Name].ID)
	}
	s.setEligible(other, structs.NodeEligible)

	for _, n := range []*cluster.Node{guarded, bare} {
		n.Kill()
		s.awaitNodeStatus(n, structs.NodeDown)
	}
	s.checkMounts("disk-v-guarded", guarded.Name+" "+held[guarded.Name].ID)
	s.storage.PowerOff(guarded.Name) // its guard ends the tasks
	next := s.awaitRunning("db-guarded", 1)[0]
	s.checkMounts("disk-v-guarded", other.Name+" "+next.ID)
	tx := s.Leader().Store().Read()
	if runs := state.FenceRuns(tx, guarded.ID); len(runs) != 1 || runs[0].Kind != rows.FenceByLease {
		t.Errorf("the runs are %+v", runs)
	}
	left := csi.ClaimsByVolume(tx, structs.DefaultNamespace, "v-bare")
	if len(left) == 0 || left[0].AllocID != held[bare.Name].ID || left[0].State != structs.ClaimGranted {
		t.Errorf("the claims of the node without a guard are %+v", left)
	}

	s.Revive(guarded, cluster.WithPlugin(attaching))
	s.awaitNodeStatus(guarded, structs.NodeReady)
	s.checkMounts("disk-v-guarded", other.Name+" "+next.ID)
}

func (s *storageCluster) setEligible(n *cluster.Node, eligibility string) {
	s.t.Helper()
	cluster.Must(s.Cluster, s.Leader(), structs.NodeEligibility,
		&structs.NodeEligibilityRequest{NodeID: n.ID, Eligibility: eligibility})
}
