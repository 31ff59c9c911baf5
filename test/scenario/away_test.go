package scenario

import (
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

// awayJob registers the job web with a disconnect block, cuts its node off, and returns its allocation.
func (s *storageCluster) awayJob(volume string, rule structs.DisconnectStrategy) *structs.Allocation {
	s.t.Helper()
	s.registerJob("web", 1, volume, func(j *structs.Job) {
		j.TaskGroups[0].Disconnect = &rule
	})
	return s.awaitRunning("web", 1)[0]
}

func (s *storageCluster) awaitStatus(a *structs.Allocation, want string) {
	s.t.Helper()
	s.AwaitRows(s.Leader(), "allocation "+a.ID+" is "+want, func(tx *state.ReadTx) bool {
		row := state.Alloc(tx, a.ID)
		return row != nil && row.ClientStatus == want
	})
}

// A node is cut off, and its allocation is replaced. When it is back, one of the two stays by the rule.
func TestAwayNode_ReconcilesWhenItReturns(t *testing.T) {
	for _, rule := range []string{
		structs.ReconcileKeepOriginal, structs.ReconcileKeepReplacement,
		structs.ReconcileBestScore, structs.ReconcileLongestRunning,
	} {
		t.Run(rule, func(t *testing.T) {
			s := startStorageCluster(t, 1)
			n1 := s.addNode("n1", attaching)
			n2 := s.addNode("n2", attaching)
			first := s.awayJob("", structs.DisconnectStrategy{LostAfter: time.Hour, Reconcile: rule})
			away, _ := hostAndOther(first, n1, n2)
			s.Net.Cut(away.Name, "s1")
			s.awaitStatus(first, structs.AllocUnknown)
			second := s.awaitRunning("web", 1)[0]
			if second.ID == first.ID {
				t.Fatal("the allocation runs that is unknown")
			}

			s.Net.Heal()
			stays := first
			ends := second
			if rule == structs.ReconcileKeepReplacement {
				stays, ends = second, first
			}
			s.awaitStatus(ends, structs.AllocComplete)
			s.awaitStatus(stays, structs.AllocRunning)
			if got := s.awaitRunning("web", 1)[0]; got.ID != stays.ID {
				t.Errorf("%s runs, want %s", got.ID, stays.ID)
			}
		})
	}
}

// The time passes while the node is away. It stops the allocation when it is back.
func TestAwayNode_IsLostAfterItsTime(t *testing.T) {
	s := startStorageCluster(t, 1)
	n1 := s.addNode("n1", attaching)
	n2 := s.addNode("n2", attaching)
	first := s.awayJob("", structs.DisconnectStrategy{LostAfter: 3 * time.Second})
	away, _ := hostAndOther(first, n1, n2)
	s.Net.Cut(away.Name, "s1")
	s.awaitStatus(first, structs.AllocUnknown)
	s.awaitStatus(first, structs.AllocLost)
	s.Net.Heal()
	s.awaitNodeStatus(away, structs.NodeReady)
	s.Await("the node has stopped the lost allocation", func() bool { return len(away.Running()) == 0 })
	if got := s.awaitRunning("web", 1)[0]; got.ID == first.ID {
		t.Error("a lost allocation runs again")
	}
}

// An allocation that is unknown keeps its volume, so nothing replaces it, and it goes on when its node is
// back.
func TestAwayNode_KeepsItsVolume(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 1)
	first := s.awayJob("v1", structs.DisconnectStrategy{LostAfter: time.Hour})
	away, _ := hostAndOther(first, n1, n2)
	s.Net.Cut(away.Name, "s1")
	s.awaitStatus(first, structs.AllocUnknown)
	s.checkText(s.awaitBlocked("web"), first.ID, away.Name)
	s.checkMounts("disk-v1", away.Name+" "+first.ID)
	s.Net.Heal()
	s.awaitStatus(first, structs.AllocRunning)
	s.checkMounts("disk-v1", away.Name+" "+first.ID)
}
