package scenario

import (
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/cluster"
)

// awaitLost waits until an allocation is lost and its job blocked, and returns the reasons.
func (s *storageCluster) awaitLost(job string, a *structs.Allocation) string {
	s.t.Helper()
	s.AwaitRows(s.Leader(), "the allocation is lost", func(tx *state.ReadTx) bool {
		row := state.Alloc(tx, a.ID)
		return row != nil && row.ClientStatus == structs.AllocLost
	})
	return s.awaitBlocked(job)
}

func TestDownNode_KeepsItsVolumeUntilForced(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 1)
	s.registerJob("db", 1, "v1")
	first := s.awaitRunning("db", 1)[0]
	dead, alive := hostAndOther(first, n1, n2)

	dead.Kill()
	s.awaitNodeStatus(dead, structs.NodeDown)
	s.checkText(s.awaitLost("db", first), first.ID, dead.Name, "is down",
		"berth volume detach -force", "v1 "+dead.ID)
	detail := cluster.Must(s.Cluster, s.Leader(), structs.CSIVolumeGet,
		&structs.CSIVolumeGetRequest{ID: "v1"}).Volume
	if len(detail.Claims) != 1 || detail.Claims[0].AllocID != first.ID {
		t.Errorf("the volume shows the claims %+v, want the dead node's", detail.Claims)
	}
	s.checkMounts("disk-v1", dead.Name+" "+first.ID)

	detach := &structs.CSIVolumeDetachRequest{VolumeID: "v1", NodeID: dead.ID}
	if err := callOnce(s, structs.CSIVolumeDetach, detach); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("detaching without force from a node that is down: %v (%s), want unavailable", err,
			structs.KindOf(err))
	}
	s.storage.PowerOff(dead.Name)
	detach.Force, detach.Reason = true, "the power is off"
	if err := callOnce(s, structs.CSIVolumeDetach, detach); err != nil {
		t.Fatal(err)
	}
	next := s.awaitRunning("db", 1)[0]
	s.checkMounts("disk-v1", alive.Name+" "+next.ID)

	back := s.Revive(dead, cluster.WithPlugin(attaching))
	s.awaitNodeStatus(back, structs.NodeReady)
	s.stopJob("db")
	s.awaitEnded("db")
	s.AwaitRows(s.Leader(), "nothing is left", func(tx *state.ReadTx) bool {
		return len(csi.ClaimsByVolume(tx, structs.DefaultNamespace, "v1")) == 0 &&
			csi.Attachment(tx, structs.DefaultNamespace, "v1", alive.ID) == nil
	})
	s.checkMounts("disk-v1")
}

// A node that was only unreachable releases volumes that others were granted when it returns, and not before.
func TestDownNode_ReleasesWhenItReturns(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 1)
	s.registerJob("db", 1, "v1")
	first := s.awaitRunning("db", 1)[0]
	away, here := hostAndOther(first, n1, n2)
	s.Net.Cut(away.Name, "s1")
	s.awaitNodeStatus(away, structs.NodeDown)
	s.checkText(s.awaitLost("db", first), away.Name, "is down")
	s.checkMounts("disk-v1", away.Name+" "+first.ID)

	s.Net.Heal()
	s.awaitNodeStatus(away, structs.NodeReady)
	next := s.awaitRunning("db", 1)[0]
	on, _ := hostAndOther(next, away, here)
	if next.ID == first.ID {
		t.Error("a lost allocation runs again")
	}
	s.checkMounts("disk-v1", on.Name+" "+next.ID)
}

// A node that restarts without its allocation's processes receives calls to release its volumes.
func TestReaper_ReleasesClaimsOfEndedAllocations(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 1)
	s.registerJob("db", 1, "v1")
	first := s.awaitRunning("db", 1)[0]
	dead, alive := hostAndOther(first, n1, n2)
	dead.Kill()
	s.awaitNodeStatus(dead, structs.NodeDown)
	s.awaitLost("db", first)
	s.checkMounts("disk-v1", dead.Name+" "+first.ID)

	// The new agent does not know the allocation, and its mount is still there.
	s.Revive(dead, cluster.WithPlugin(attaching))
	next := s.awaitRunning("db", 1)[0]
	on, _ := hostAndOther(next, dead, alive)
	s.checkMounts("disk-v1", on.Name+" "+next.ID)
}

func TestSystemJob_FollowsTheNodes(t *testing.T) {
	s := startStorageCluster(t, 1)
	n1 := s.addNode("n1", attaching)
	n2 := s.addNode("n2", attaching)
	s.registerJob("watch", 1, "", func(j *structs.Job) {
		j.Type = structs.JobSystem
	})
	s.awaitRunning("watch", 2)
	cluster.Must(s.Cluster, s.Leader(), structs.NodeEligibility, &structs.NodeEligibilityRequest{NodeID: n1.ID,
		Eligibility: structs.NodeIneligible})
	n3 := s.addNode("n3", attaching)
	if got := s.awaitRunning("watch", 3); got[0].NodeID == got[1].NodeID || got[1].NodeID == got[2].NodeID {
		t.Error("two allocations are on one node")
	}
	n2.PowerOff()
	s.awaitNodeStatus(n2, structs.NodeDown)
	s.awaitRunning("watch", 2)
	s.Revive(n2, cluster.WithPlugin(attaching))
	s.awaitRunning("watch", 3)
	s.stopJob("watch")
	s.awaitEnded("watch")
	_ = n3
}

// The loops of the next leader continue the work of the first.
func TestAttach_IsCompletedByTheNextLeader(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 3)
	tried := make(chan struct{}, 100)
	s.storage.Fail(func(op, _ string) error {
		if op != "attach" {
			return nil
		}
		select {
		case tried <- struct{}{}:
		default:
		}
		return structs.Errorf(structs.KindUnavailable, "the array is busy")
	})
	s.registerJob("db", 1, "v1")
	<-tried
	old := s.Leader()
	s.AwaitRows(old, "the failure is recorded", func(tx *state.ReadTx) bool {
		for a := range csi.UnsettledAttachments(tx) {
			return a.LastError != nil
		}
		return false
	})
	if err := old.Kill(); err != nil {
		t.Error(err)
	}
	s.storage.Fail(nil)
	a := s.awaitRunning("db", 1)[0]
	on, _ := hostAndOther(a, n1, n2)
	s.checkMounts("disk-v1", on.Name+" "+a.ID)
	s.Restart(old)
	s.stopJob("db")
	s.awaitEnded("db")
	s.AwaitRows(s.Leader(), "the volume is detached", func(tx *state.ReadTx) bool {
		return csi.Attachment(tx, structs.DefaultNamespace, "v1", a.NodeID) == nil
	})
}
