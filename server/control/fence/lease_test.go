package fence

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// underLease changes the policy of the volumes of the cluster, and puts a guard on the claim of "fenced".
func (c *testCluster) underLease() {
	c.t.Helper()
	propose(c, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeReady})
	for _, v := range []string{"fenced", "held"} {
		c.freeAll(v)
		propose(c, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
			ID: v, Namespace: structs.DefaultNamespace,
			CSIVolumeSpec: structs.CSIVolumeSpec{
				PluginID:   "p",
				ExternalID: "ext-" + v,
				OnNodeLoss: structs.LossLease,
			},
		}}})
		propose(c, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{{
			Namespace:      structs.DefaultNamespace,
			VolumeID:       v,
			AllocID:        v + "-n1",
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
			Guarded:        v == "fenced",
		}}})
	}
}

// freeAll releases the claims of a volume.
func (c *testCluster) freeAll(volume string) {
	c.t.Helper()
	var keys []structs.CSIClaimKey
	for _, row := range csi.ClaimsByVolume(c.Store.Read(), structs.DefaultNamespace, volume) {
		keys = append(keys, row.Key())
	}
	propose(c, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{Claims: keys})
}

// leadLeases runs the loop of a leader.
func (c *testCluster) leadLeases() (stop func()) {
	loop := LeaseLoop{
		Common: loop.Common{
			Store:    c.Store,
			Proposer: c,
			Logger:   hclog.NewNullLogger(),
		},
		Now: time.Now,
	}
	return run(loop.Run)
}

// wantReleased fails the test unless the guarded claim of n1 is released after a time, and not much earlier.
func (c *testCluster) wantReleased(in time.Duration) {
	c.t.Helper()
	if in > 0 {
		after(in - time.Millisecond)
		if got := c.holds("n1"); got != "fenced held" {
			c.t.Errorf("n1 holds %q before %s are over", got, in)
		}
	}
	after(2 * leaseInterval)
	if got := c.holds("n1"); got != "held" {
		c.t.Errorf("n1 holds %q after %s", got, in)
	}
}

func TestLeaseLoop_WaitsForTheKillAfterTheLease(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.underLease()
		stop := c.leadLeases()
		defer stop()
		c.down("n1")
		c.wantReleased(cluster.GuardEndTime)
		after(time.Hour)
		runs := state.FenceRuns(c.Store.Read(), "n1")
		if len(runs) != 1 || runs[0].Kind != cluster.FenceByLease || runs[0].Released != 1 {
			t.Errorf("the runs are %+v, want one for all that is guarded", runs)
		}
	})
}

// An earlier leader marked the node down, at a time that this one does not know.
func TestLeaseLoop_WaitsAgainAfterAChangeOfLeader(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.underLease()
		c.down("n1")
		stop := c.leadLeases()
		after(cluster.GuardEndTime - time.Second)
		stop()
		stop = c.leadLeases()
		defer stop()
		c.wantReleased(cluster.GuardEndTime)
	})
}

func TestLeaseLoop_AReturnBeginsAgain(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.underLease()
		stop := c.leadLeases()
		defer stop()
		c.down("n1")
		after(cluster.GuardEndTime - time.Second)
		c.register("n1") // between two looks
		c.down("n1")
		c.wantReleased(cluster.GuardEndTime)
	})
}

func TestLeaseLoop_HoldsANodeThatIsUp(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.underLease()
		stop := c.leadLeases()
		defer stop()
		after(time.Hour)
		if got := c.holds("n1"); got != "fenced held" {
			t.Errorf("n1 is up and holds %q", got)
		}
	})
}

func TestLeaseLoop_ReleasesWhenTheLogIsBack(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.underLease()
		c.Fail(structs.Unavailablef("no quorum"), fsm.LeaseProof.CommandInfo)
		stop := c.leadLeases()
		defer stop()
		c.down("n1")
		after(time.Minute)
		if got := c.holds("n1"); got != "fenced held" {
			t.Errorf("n1 holds %q", got)
		}
		c.Fail(nil, fsm.LeaseProof.CommandInfo)
		c.wantReleased(0)
	})
}

// A fence agent that takes long delays no release of another node's claims.
func TestLeaseLoop_DoesNotWaitForAFenceAgent(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.underLease()
		stopFence := c.lead(power("ipmi", &agent{fence: hangs}))
		defer stopFence()
		stop := c.leadLeases()
		defer stop()
		c.down("n1")
		c.down("n2")
		propose(c, fsm.FenceOrdered, &cluster.NodeFenceRequest{NodeID: "n2", By: "ann"})
		c.wantReleased(cluster.GuardEndTime)
	})
}
