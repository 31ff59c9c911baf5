package scenario

import (
	"context"
	"slices"
	"sync"
	"testing"

	"berth/server"
	"berth/server/control/fence"
	"berth/server/fencing"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// powerSwitch is a fence device that all servers share. A run waits until the test lets it act.
type powerSwitch struct {
	act  chan struct{} // a run takes one before it switches a machine off
	mu   sync.Mutex
	off  func(nodeID string)
	ends []error // the errors of the contexts of runs that did nothing
}

func newPowerSwitch() *powerSwitch { return &powerSwitch{act: make(chan struct{}, 1)} }

// fences is the option of the servers that have the switch.
func (p *powerSwitch) fences(cfg *server.Config) {
	cfg.Fencers = fence.Devices{{Name: "switch", Scope: fencing.ScopePower, Agent: p}}
}

func (p *powerSwitch) Matches(*state.FenceTarget) string { return "" }

func (p *powerSwitch) Covers(string, string, string) bool { return true }

func (p *powerSwitch) Monitor(context.Context, *state.FenceTarget) fencing.Result {
	return fencing.Result{}
}

func (p *powerSwitch) Fence(ctx context.Context, n *state.FenceTarget) fencing.Result {
	select {
	case <-p.act:
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ends = append(p.ends, ctx.Err())
		return fencing.Result{Action: "off", ExitCode: -1, Reason: "the run was ended"}
	}
	p.off(n.NodeID)
	return fencing.Result{Action: "status", ExitCode: 2, Proved: true}
}

// startFenced starts servers with a switch, two nodes, and the volume v1 whose policy is fence. The job db
// uses it on the first of the returned nodes.
func startFenced(t *testing.T, servers int) (
	s *storageCluster, p *powerSwitch, first *structs.Allocation, holder, other *cluster.Node,
) {
	t.Helper()
	p = newPowerSwitch()
	s, n1, n2 := startWithVolume(t, servers, p.fences)
	p.off = func(nodeID string) {
		for _, n := range []*cluster.Node{n1, n2} {
			if n.ID == nodeID {
				s.storage.PowerOff(n.Name)
			}
		}
	}
	cluster.Must(s.Cluster, s.Leader(), structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
			ID: "v1",
			CSIVolumeSpec: structs.CSIVolumeSpec{
				PluginID:              "p",
				RequestedCapabilities: oneWriter,
				OnNodeLoss:            structs.LossFence,
			},
		}}})
	s.registerJob("db", 1, "v1")
	first = s.awaitRunning("db", 1)[0]
	holder, other = hostAndOther(first, n1, n2)
	return s, p, first, holder, other
}

// awaitRuns waits until the runs for a node have these states and causes.
func (s *storageCluster) awaitRuns(n *cluster.Node, want ...string) {
	s.t.Helper()
	s.AwaitRows(s.Leader(), "the runs are as wanted", func(tx *state.ReadTx) bool {
		var got []string
		for _, r := range state.FenceRuns(tx, n.ID) {
			got = append(got, r.State+r.Cause)
		}
		return slices.Equal(got, want)
	})
}

// checkHeld fails the test unless the lost node still has the volume.
func (s *storageCluster) checkHeld(first *structs.Allocation, holder *cluster.Node) {
	s.t.Helper()
	claims := csi.ClaimsByVolume(s.Leader().Store().Read(), structs.DefaultNamespace, "v1")
	if len(claims) == 0 || claims[0].AllocID != first.ID || claims[0].State != structs.ClaimGranted {
		s.t.Errorf("the claims are %+v, want that of the lost node", claims)
	}
	s.checkMounts("disk-v1", holder.Name+" "+first.ID)
}

func TestFence_MovesAVolumeAfterTheProof(t *testing.T) {
	s, p, first, dead, alive := startFenced(t, 1)
	dead.Kill()
	s.awaitNodeStatus(dead, structs.NodeDown)
	s.checkText(s.awaitLost("db", first), dead.Name, "until a fence device proves", "berth node confirm-lost")
	s.awaitRuns(dead, rows.FenceRunning)
	s.checkHeld(first, dead)

	p.act <- struct{}{}
	next := s.awaitRunning("db", 1)[0]
	s.checkMounts("disk-v1", alive.Name+" "+next.ID)
	s.awaitRuns(dead, rows.FenceProved)
	v := csi.Volume(s.Leader().Store().Read(), structs.DefaultNamespace, "v1")
	if v.Forced == nil || v.Forced.NodeID != dead.ID {
		t.Errorf("the volume records %+v", v.Forced)
	}
	s.Revive(dead, cluster.WithPlugin(attaching))
	s.awaitNodeStatus(dead, structs.NodeReady)
	s.checkMounts("disk-v1", alive.Name+" "+next.ID)
}

// A run ends with its leader and proves nothing. The next leader runs the device again.
func TestFence_ContinuesUnderTheNextLeader(t *testing.T) {
	s, p, first, dead, alive := startFenced(t, 3)
	dead.Kill()
	s.awaitNodeStatus(dead, structs.NodeDown)
	s.awaitRuns(dead, rows.FenceRunning)
	former := s.Leader()
	if err := former.Kill(); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	if len(p.ends) != 1 {
		t.Errorf("%d runs ended with their leader, want 1", len(p.ends))
	}
	p.mu.Unlock()
	s.awaitRuns(dead, rows.FenceFailed+rows.FenceCauseLeader, rows.FenceRunning)
	s.checkHeld(first, dead)

	p.act <- struct{}{}
	next := s.awaitRunning("db", 1)[0]
	s.checkMounts("disk-v1", alive.Name+" "+next.ID)
	s.awaitRuns(dead, rows.FenceFailed+rows.FenceCauseLeader, rows.FenceProved)
	s.Restart(former)
}

// A node that comes back during the run keeps its claims.
func TestFence_ANodeThatComesBackIsNotReleased(t *testing.T) {
	s, p, first, away, _ := startFenced(t, 1)
	s.Net.Cut(away.Name, "s1")
	s.awaitNodeStatus(away, structs.NodeDown)
	s.awaitRuns(away, rows.FenceRunning)
	s.Net.Heal()
	s.awaitNodeStatus(away, structs.NodeReady)
	s.awaitRuns(away, rows.FenceVoid)
	p.off = func(string) {} // the switch is too late
	p.act <- struct{}{}
	v := csi.Volume(s.Leader().Store().Read(), structs.DefaultNamespace, "v1")
	if v.Forced != nil {
		t.Errorf("allocation %s lost the volume by force: %+v", first.ID, v.Forced)
	}
}

func TestConfirmLost_MovesAVolumeThatIsHeld(t *testing.T) {
	s, n1, n2 := startWithVolume(t, 1)
	s.registerJob("db", 1, "v1")
	first := s.awaitRunning("db", 1)[0]
	dead, alive := hostAndOther(first, n1, n2)
	word := &rows.NodeFenceRequest{NodeID: dead.ID, By: "ann", Why: "it burns"}
	if err := callOnce(s, rows.NodeConfirmLost, word); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("the loss of a node that is up: %v (%s), want precondition", err, structs.KindOf(err))
	}
	dead.Kill()
	s.awaitNodeStatus(dead, structs.NodeDown)
	s.awaitLost("db", first)
	s.storage.PowerOff(dead.Name)
	if err := callOnce(s, rows.NodeFence, word); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("a fence without devices: %v (%s), want precondition", err, structs.KindOf(err))
	}
	if err := callOnce(s, rows.NodeConfirmLost, word); err != nil {
		t.Fatal(err)
	}
	next := s.awaitRunning("db", 1)[0]
	s.checkMounts("disk-v1", alive.Name+" "+next.ID)
}
