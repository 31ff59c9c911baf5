package scenario

import (
	"slices"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
	"berth/test/cluster"
)

// setReclaim makes the registered volume v1 one that is deleted some time after a request.
func (s *storageCluster) setReclaim(after time.Duration) {
	s.t.Helper()
	cluster.Must(s.Cluster, s.Leader(), structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
			ID: "v1",
			CSIVolumeSpec: structs.CSIVolumeSpec{
				ExternalID:            "disk-v1",
				PluginID:              "p",
				Reclaim:               storage.ReclaimDelete,
				DeleteAfter:           &after,
				RequestedCapabilities: oneWriter,
			},
		}}})
}

func (s *storageCluster) requestDeletion() {
	s.t.Helper()
	if err := callOnce(s, structs.CSIVolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v1"}); err != nil {
		s.t.Fatal(err)
	}
}

// deletions counts the calls that delete the volume v1.
func (s *storageCluster) deletions() (count int) {
	for _, call := range s.storage.Log() {
		if slices.Contains([]string{"n1 delete disk-v1", "n2 delete disk-v1"}, call) {
			count++
		}
	}
	return count
}

// TestReclaim_DeletesOnceAfterTheProofUnderTheNextLeader marks the volume of a node that is lost. The time of
// its deletion passes while the claim holds, and the leader changes.
func TestReclaim_DeletesOnceAfterTheProofUnderTheNextLeader(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 3)
	s.setReclaim(time.Hour)
	s.requestDeletion()
	if err := callOnce(s, storage.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: "v1"}); err != nil {
		t.Fatal(err)
	}

	s.registerJob("db", 1, "v1")
	first := s.awaitRunning("db", 1)[0]
	dead, _ := hostAndOther(first, n1, n2)
	err := callOnce(s, structs.CSIVolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v1"})
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Fatalf("the request to delete a volume in use: %v", err)
	}
	dead.Kill()
	s.awaitNodeStatus(dead, structs.NodeDown)
	s.stopJob("db")
	s.AwaitRows(s.Leader(), "the allocations of the job are to stop", func(tx *state.ReadTx) bool {
		live := func(a *structs.Allocation) bool { return !a.Terminal() }
		return len(allocsOfJob(tx, "db", live)) == 0
	})
	s.setReclaim(time.Millisecond)
	s.requestDeletion()

	old := s.Leader()
	if err := old.Kill(); err != nil {
		t.Error(err)
	}
	s.AwaitRows(s.Leader(), "the next leader knows the volume and the claim", func(tx *state.ReadTx) bool {
		v := csi.Volume(tx, structs.DefaultNamespace, "v1")
		return v.Marked() && csi.Claim(tx, structs.DefaultNamespace, "v1", first.ID) != nil
	})
	if n := s.deletions(); n != 0 {
		t.Errorf("%d deletions while a lost node may write", n)
	}

	s.storage.PowerOff(dead.Name)
	detach := &structs.CSIVolumeDetachRequest{VolumeID: "v1", NodeID: dead.ID, Force: true, Reason: "it is off"}
	if err := callOnce(s, structs.CSIVolumeDetach, detach); err != nil {
		t.Fatal(err)
	}
	s.AwaitRows(s.Leader(), "the volume is deleted", func(tx *state.ReadTx) bool {
		return csi.Volume(tx, structs.DefaultNamespace, "v1") == nil
	})
	s.Restart(old)
	s.CheckEqualStates()
	if n := s.deletions(); n != 1 || s.storage.Exists("disk-v1") {
		t.Errorf("%d deletions, want one; the storage has the volume: %t", n, s.storage.Exists("disk-v1"))
	}
}
