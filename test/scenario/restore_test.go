package scenario

import (
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/cluster"
)

// The servers return to a state in which a volume was free, while a node writes to it: no other node gets it
// before that node has released it. The storage fails the test if two have it mounted.
func TestRestore_ForgetsLaterGrants(t *testing.T) {
	for name, reachable := range map[string]bool{"the node is there": true, "the node is out of reach": false} {
		t.Run(name, func(t *testing.T) {
			s, n1, n2 := startWithVolume(t, 1)
			archive := s.saveSnapshot()
			s.registerJob("db", 1, "v1")
			first := s.awaitRunning("db", 1)[0]
			host, other := hostAndOther(first, n1, n2)
			if !reachable {
				s.Net.Cut(host.Name, "s1")
				s.awaitNodeStatus(host, structs.NodeDown)
			}
			s.restoreSnapshot(archive)
			s.AwaitRows(s.Leader(), "the state of the snapshot is back", func(tx *state.ReadTx) bool {
				return state.Job(tx, "default", "db") == nil
			})
			cluster.Must(s.Cluster, s.Leader(), structs.NodeEligibility,
				&structs.NodeEligibilityRequest{NodeID: host.ID, Eligibility: structs.NodeIneligible})
			s.registerJob("db", 1, "v1")
			if !reachable {
				s.awaitNodeStatus(host, structs.NodeDown)
				s.AwaitRows(s.Leader(), "the claim waits", func(tx *state.ReadTx) bool { // the other node has the volume
					for c := range csi.ClaimsFrom(tx, structs.DefaultNamespace, "", state.Page{}) {
						waits := c.NodeID == other.ID && c.State == structs.ClaimWaiting
						return waits && csi.Recovering(tx) != ""
					}
					return false
				})
				why := csi.Recovering(s.Leader().Store().Read())
				s.checkText(why, host.Name, "it is down", "berth node purge "+host.ID)
				s.checkMounts("disk-v1", host.Name+" "+first.ID)
				s.Net.Heal()
			}
			next := s.awaitRunning("db", 1)[0]
			s.checkMounts("disk-v1", other.Name+" "+next.ID)
		})
	}
}

// An operator deletes a node that never returns.
func TestRestore_DoesNotWaitForADeletedNode(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 1)
	archive := s.saveSnapshot()
	n1.PowerOff()
	s.restoreSnapshot(archive)
	s.awaitNodeStatus(n1, structs.NodeDown)
	s.registerJob("db", 1, "v1")
	if csi.Recovering(s.Leader().Store().Read()) == "" {
		t.Error("the servers wait for no node")
	}
	cluster.Must(s.Cluster, s.Leader(), structs.NodeDeregister,
		&structs.NodeDeregisterRequest{NodeIDs: []string{n1.ID}})
	next := s.awaitRunning("db", 1)[0]
	s.checkMounts("disk-v1", n2.Name+" "+next.ID)
}

// A node loses its power and all its records while the servers return to a snapshot: only the replaced state
// knew that a volume is attached to it. The volume is detached, and another node gets it.
func TestRestore_DetachesFromANodeWithoutRecords(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 1)
	archive := s.saveSnapshot()
	s.registerJob("db", 1, "v1")
	host, other := hostAndOther(s.awaitRunning("db", 1)[0], n1, n2)
	host.PowerOff()
	s.restoreSnapshot(archive)
	s.Revive(host, cluster.WithPlugin(attaching))
	cluster.Must(s.Cluster, s.Leader(), structs.NodeEligibility,
		&structs.NodeEligibilityRequest{NodeID: host.ID, Eligibility: structs.NodeIneligible})
	s.registerJob("db", 1, "v1")
	next := s.awaitRunning("db", 1)[0]
	s.checkMounts("disk-v1", other.Name+" "+next.ID)
}
