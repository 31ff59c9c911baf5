package state_test

import (
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// leaseNode returns a fixture in which n1 is down. Job db holds there volumes of the plugin p: "guarded" and
// "bare", whose policy is lease, and "held" and "fenced". Only the claim of "bare" is not guarded. n2 is up,
// and job next waits there for all of them.
func leaseNode(t *testing.T) *fixture {
	w := newFixture(t)
	w.Node("n1", attachingHalves("p")...)
	w.Node("n2", attachingHalves("p")...)
	for id, policy := range map[string]string{
		"guarded": structs.LossLease,
		"bare":    structs.LossLease,
		"held":    structs.LossHold,
		"fenced":  structs.LossFence,
	} {
		row := aVolume(id, "p")
		row.OnNodeLoss = policy
		do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{row},
			WriteOptions: w.Now(),
		})
		for job, node := range map[string]string{"db-": "n1", "next-": "n2"} {
			w.Alloc(job+id, strings.Trim(job, "-"), node)
		}
		c := aClaim(id, "db-"+id, structs.ClaimWrite, structs.CSISingleNodeWriter)
		c.Guarded = id != "bare"
		w.Claim(c)
		w.Claim(aClaim(id, "next-"+id, structs.ClaimWrite, structs.CSISingleNodeWriter))
		w.Outcome(id, "n1", "attach", nil)
	}
	w.Status(structs.NodeDown, "n1")
	return w
}

// leaseHeld returns the volumes of leaseNode that n1 still holds.
func (w *fixture) leaseHeld() string {
	var held []string
	for c := range csi.ClaimsByNode(w.Store.Read(), "n1") {
		if c.State == structs.ClaimGranted {
			held = append(held, c.VolumeID)
		}
	}
	slices.Sort(held)
	return strings.Join(held, " ")
}

func (w *fixture) leaseProof(epoch uint64) error {
	w.T.Helper()
	return try(w, state.LeaseProof, &cluster.LeaseProofRequest{NodeID: "n1", Epoch: epoch, Now: w.Now().Now})
}

func TestLeaseProof_ReleasesGuardedClaimsOfVolumesUnderLease(t *testing.T) {
	w := leaseNode(t)
	for range 2 { // a repeated entry changes nothing
		if err := w.leaseProof(w.Epoch("n1")); err != nil {
			t.Fatal(err)
		}
		if got := w.leaseHeld(); got != "bare fenced held" {
			t.Errorf("n1 holds %q", got)
		}
	}
	runs := w.runs("n1")
	if len(runs) != 1 || runs[0].Kind != cluster.FenceByLease || runs[0].State != cluster.FenceProved ||
		runs[0].Epoch != w.Epoch("n1") || runs[0].Released != 1 || runs[0].Ordered() {
		t.Errorf("the runs are %+v", runs[0])
	}
	forced := csi.Volume(w.Store.Read(), structs.DefaultNamespace, "guarded").Forced
	if forced == nil || forced.NodeID != "n1" || forced.By != "the servers" ||
		forced.Reason != "on_node_loss is lease" {
		t.Errorf("the volume records %+v", forced)
	}
	a := state.Alloc(w.Store.Read(), "db-guarded")
	if a.ClientStatus != structs.AllocLost || a.DesiredStatus != structs.AllocDesiredStop {
		t.Errorf("the holder is %s, wanted %s", a.ClientStatus, a.DesiredStatus)
	}
}

// A detach that fails holds the volume.
func TestLeaseProof_TheNextClaimWaitsForTheDetach(t *testing.T) {
	w := leaseNode(t)
	if err := w.leaseProof(w.Epoch("n1")); err != nil {
		t.Fatal(err)
	}
	w.Outcome("guarded", "n1", "detach", &structs.OperationError{Kind: structs.KindUnavailable})
	w.WantClaims("guarded", map[string]string{"next-guarded": structs.ClaimWaiting})
	w.Outcome("guarded", "n1", "detach", nil)
	w.WantClaims("guarded", map[string]string{"next-guarded": structs.ClaimGranted})
}

func TestLeaseProof_IsAboutOneLoss(t *testing.T) {
	w := leaseNode(t)
	lost := w.Epoch("n1")
	wantKind(t, w.leaseProof(0), structs.KindConflict)
	wantKind(t, w.leaseProof(lost+1), structs.KindConflict)
	w.Status(structs.NodeReady, "n1")
	wantKind(t, w.leaseProof(lost), structs.KindPrecondition)
	wantKind(t, w.leaseProof(w.Epoch("n1")), structs.KindPrecondition)
	w.Status(structs.NodeDown, "n1")
	wantKind(t, w.leaseProof(lost), structs.KindConflict)
	if got := w.leaseHeld(); got != "bare fenced guarded held" {
		t.Errorf("n1 holds %q", got)
	}
}

// The node may have other volumes than the restored claims say.
func TestLeaseProof_HoldsANodeThatHasNotReportedSinceARestore(t *testing.T) {
	w := leaseNode(t)
	do(w, func(tx *state.WriteTx, n *structs.Node) error {
		state.PutUnaccounted(tx, n, 1)
		return nil
	}, state.ShallowCopy(state.Node(w.Store.Read(), "n1")))
	if err := w.leaseProof(w.Epoch("n1")); err != nil {
		t.Fatal(err)
	}
	if got := w.leaseHeld(); got != "bare fenced guarded held" {
		t.Errorf("n1 holds %q", got)
	}
}

// The node may have come back after the snapshot. An operator decides with the knowledge of now, not of then.
func TestFenceBegin_HoldsANodeThatHasNotReportedSinceARestore(t *testing.T) {
	w := leaseNode(t)
	if err := w.order("n1"); err != nil {
		t.Fatal(err)
	}
	back := w.restored(w.Save())
	if order := state.FenceOrder(back.Store.Read(), "n1"); order != nil {
		t.Errorf("an order of the archive is left: %+v", order)
	}
	begin := func() error {
		return try(back, state.FenceBegin, &cluster.FenceBeginRequest{
			NodeID:  "n1",
			Epoch:   back.Epoch("n1"),
			Number:  1,
			Attempt: 1,
			Device:  "ipmi",
			Scope:   cluster.FencePower,
		})
	}
	wantKind(t, begin(), structs.KindPrecondition)
	if err := back.order("n1"); err != nil {
		t.Fatal(err)
	}
	if err := begin(); err != nil {
		t.Errorf("a run that an operator ordered after the restore: %v", err)
	}
}

// A node claims first, learns the policy, orders its guard, and then says that the claim is guarded. It takes
// that back only with a reason.
func TestVolumeClaim_IsGuardedOnlyUnderLease(t *testing.T) {
	for name, c := range map[string]struct {
		policy, plugins string
		guarded         bool
	}{
		"the volume's rule":           {structs.LossLease, "", true},
		"the plugin's rule":           {"", structs.LossLease, true},
		"hold":                        {"", "", false},
		"its own before the plugin's": {structs.LossFence, structs.LossLease, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Node("n1", anInstance("p", structs.CSIKindNode, true))
			w.Alloc("first", "j", "n1")
			w.Alloc("later", "k", "n1")
			do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", OnNodeLoss: c.plugins})
			row := aVolume("v", "p")
			row.OnNodeLoss = c.policy
			do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{row},
				WriteOptions: w.Now(),
			})

			claim := func(alloc string, guarded, want bool) {
				t.Helper()
				own := aClaim("v", alloc, structs.ClaimWrite, structs.CSISingleNodeWriter)
				own.Guarded = guarded
				w.Claim(own)
				if got := csi.Claim(w.Store.Read(), own.Namespace, "v", alloc).Guarded; got != want {
					t.Errorf("the claim of %s is guarded: %v, want %v", alloc, got, want)
				}
			}
			claim("first", true, c.guarded)
			claim("later", false, false)
			claim("later", true, c.guarded)
			claim("later", false, c.guarded)
		})
	}
}

// A volume that several nodes read, and that one writes, is released with its detach too.
func TestForced_AWriterWaitsForTheDetach(t *testing.T) {
	for name, c := range map[string]struct {
		forced bool
		want   string
	}{
		"released by its node": {false, structs.ClaimGranted},
		"released by force":    {true, structs.ClaimWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Node("n1", attachingHalves("p")...)
			w.Node("n2", attachingHalves("p")...)
			w.Volume("v", "p")
			w.Alloc("a", "j", "n1")
			w.Alloc("b", "j", "n2")
			w.Alloc("r", "j", "n2")
			w.Claim(aClaim("v", "a", structs.ClaimWrite, structs.CSIMultiNodeSingleWriter))
			w.Claim(aClaim("v", "b", structs.ClaimWrite, structs.CSIMultiNodeSingleWriter))
			w.Outcome("v", "n1", "attach", nil)
			if c.forced {
				w.Status(structs.NodeDown, "n1")
				do(w, state.ConfirmLost, &cluster.NodeFenceRequest{NodeID: "n1", By: "ann", Why: "it burns"})
			} else {
				w.Release("v", "a")
			}
			w.Claim(aClaim("v", "r", structs.ClaimRead, structs.CSIMultiNodeSingleWriter))
			w.WantClaims("v", map[string]string{"b": c.want, "r": structs.ClaimGranted})
			w.Outcome("v", "n1", "detach", nil)
			w.WantClaims("v", map[string]string{"b": structs.ClaimGranted, "r": structs.ClaimGranted})
		})
	}
}

func TestVolumeClaim_StaysUnguarded(t *testing.T) {
	for name, first := range map[string]bool{"a guarded claim": true, "a new claim": false} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Node("n1", anInstance("p", structs.CSIKindNode, true))
			w.Alloc("a", "j", "n1")
			row := aVolume("v", "p")
			row.OnNodeLoss = structs.LossLease
			do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{row},
				WriteOptions: w.Now(),
			})

			claim := func(guarded bool, reason string) *structs.CSIClaim {
				t.Helper()
				own := aClaim("v", "a", structs.ClaimWrite, structs.CSISingleNodeWriter)
				own.Guarded = guarded
				own.Unguarded = reason
				w.Claim(own)
				return csi.Claim(w.Store.Read(), own.Namespace, "v", "a")
			}
			grant := uint64(0)
			if first {
				grant = claim(true, "").GrantIndex
			}
			got := claim(true, "fuse")
			if got.Guarded || got.Unguarded != "fuse" || first && got.GrantIndex != grant {
				t.Errorf("the claim is %+v", got)
			}
			// A request that comes late changes nothing.
			got = claim(true, "")
			if got.Guarded || got.Unguarded != "fuse" {
				t.Errorf("the claim is %+v", got)
			}
		})
	}
}
