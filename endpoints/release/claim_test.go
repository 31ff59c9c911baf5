package release

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/oneserver"
)

// world is a Releaser before a state without rows, or with the node n1.
type world struct {
	*Releaser
	t      *testing.T
	log    *oneserver.Log
	called []string
	// mounts are the mounts of the node; silent makes it answer nothing.
	mounts []string
	stuck  bool // the plugin of the node does not unmount
	silent bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, log: oneserver.NewLog()}
	w.Releaser = &Releaser{
		Store:  w.log.Store,
		Raft:   w.log,
		Nodes:  w,
		Logger: hclog.NewNullLogger(),

		MayAssert: func(context.Context) error { return nil },
	}
	return w
}

// Call is a call to the node.
func (w *world) Call(_ context.Context, _, method string, _, resp any) error {
	w.called = append(w.called, method)
	switch {
	case w.silent:
		return structs.Timeoutf("no answer")
	case method == nodecalls.ClientCSINodeVolume.Name:
		resp.(*nodecalls.ClientCSINodeVolumeResponse).Mounts = w.mounts
	case w.stuck:
		return structs.Unavailablef("no healthy instance of the plugin runs here")
	}
	return nil
}

func (w *world) addNode() {
	w.t.Helper()
	node := &structs.Node{ID: "n1", SecretID: "s", Name: "one", Status: structs.NodeReady, Datacenter: "dc1"}
	oneserver.Put(w.t, w.log, fsm.NodeRegister, &structs.NodeRegisterRequest{Node: node})
}

// orphan is a granted claim. The tests choose which of the rows it names exist.
func orphan() *structs.CSIClaim {
	return &structs.CSIClaim{
		Namespace: "default",
		VolumeID:  "v",
		AllocID:   "a1",
		NodeID:    "n1",
		PluginID:  "p",
		State:     structs.ClaimGranted,
	}
}

// load replaces the state by a snapshot file with one claim and no other row that it names than the given
// ones. No entry of the log leads to such a state.
func (w *world) load(c *structs.CSIClaim, volumes ...*structs.CSIVolume) {
	w.t.Helper()
	class := structs.CSIClassCount{Granted: 1}
	if c.State == structs.ClaimWaiting {
		class = structs.CSIClassCount{Waiting: 1}
	}
	claims := mvcc.NewTable("csi_claims", func(c *structs.CSIClaim) mvcc.Key {
		return mvcc.KeyOf(c.Namespace, c.VolumeID, c.AllocID)
	})
	queues := mvcc.NewTable("csi_lines", func(q *structs.CSIClaimQueueRow) mvcc.Key {
		return mvcc.KeyOf(q.Namespace, q.VolumeID)
	})
	rows := mvcc.NewTable("csi_volumes", func(v *structs.CSIVolume) mvcc.Key {
		return mvcc.KeyOf(v.Namespace, v.ID)
	})
	w.loadTables([]mvcc.AnyTable{claims, queues, rows}, func(tx *mvcc.WriteTx) error {
		claims.Put(tx, c)
		for _, v := range volumes {
			rows.Put(tx, v)
		}
		queues.Put(tx, &structs.CSIClaimQueueRow{
			Namespace: c.Namespace,
			VolumeID:  c.VolumeID,
			Classes:   []structs.CSIClassCount{class},
		})
		return nil
	})
}

// loadTables replaces the state by a snapshot file of tables that a function fills.
func (w *world) loadTables(tables []mvcc.AnyTable, fill func(tx *mvcc.WriteTx) error) {
	w.t.Helper()
	db := mvcc.Open(&mvcc.Schema{Tables: tables})
	err := db.Write(w.log.Index(), fill)
	var file bytes.Buffer
	if err == nil {
		err = db.Save(&file)
	}
	if err == nil {
		err = w.Store.Load(&file)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// release releases the claim by the exported call, and fails the test unless the claim is then released or,
// with an error, still there without an entry.
func (w *world) release(force, dryRun bool) (*structs.VolumeClaimReleaseResponse, error) {
	w.t.Helper()
	call := w.Claim
	if force && !dryRun {
		call = w.ForceClaim
	}
	before := w.log.Len()
	resp := &structs.VolumeClaimReleaseResponse{}
	_, err := call(w.t.Context(), &structs.VolumeClaimReleaseRequest{
		VolumeID: "v",
		AllocID:  "a1",
		Force:    force,
		DryRun:   dryRun,
		Reason:   "it burnt",
	}, resp)
	isHeld := csi.Claim(w.Store.Read(), "default", "v", "a1") != nil
	wantHeld := err != nil || dryRun
	if isHeld != wantHeld || wantHeld != (w.log.Len() == before) {
		w.t.Errorf("answered %+v, %v; the claim is there: %t, with %d entries", resp, err, isHeld, w.log.Len()-before)
	}
	return resp, err
}

func wantAll(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want %q in it", text, part)
		}
	}
}

// TestClaim_WithoutTheRowOfItsNode needs force: nobody can be called.
func TestClaim_WithoutTheRowOfItsNode(t *testing.T) {
	w := newWorld(t)
	w.load(orphan())
	w.silent = true
	_, err := w.release(false, false)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Fatalf("without force: got %v", err)
	}
	wantAll(t, err.Error(), "node n1 has no row any more and cannot report")

	would, _ := w.release(true, true)
	wantAll(t, strings.Join(would.Unproved, "\n"), "Node n1 has no row any more: nothing proves that it does not write")
	resp, err := w.release(true, false)
	if err != nil || resp.Proof != structs.DetachVouched {
		t.Fatalf("with force: got %+v, error %v", resp, err)
	}
	wantAll(t, resp.Detail, "Node n1 has no row any more", "nothing proves",
		"The claim of allocation a1 is released because you assert it")
}

// TestClaim_WithoutTheRowOfItsAllocation is released with the word of its node.
func TestClaim_WithoutTheRowOfItsAllocation(t *testing.T) {
	w := newWorld(t)
	w.load(orphan())
	w.addNode()
	resp, err := w.release(false, false)
	if err != nil || resp.Proof != structs.DetachLetGo {
		t.Fatalf("got %+v, error %v", resp, err)
	}
	wantAll(t, resp.Detail, "Node one (n1) has released volume", "allocation a1 has no row any more")
	if !slices.Equal(w.called, []string{nodecalls.ClientCSINodeDetach.Name}) {
		t.Errorf("called %v", w.called)
	}
}

// TestClaim_WithoutTheRowOfItsPlugin: nothing unmounts the volume, and the node says what it has mounted.
func TestClaim_WithoutTheRowOfItsPlugin(t *testing.T) {
	w := newWorld(t)
	w.load(orphan())
	w.addNode()
	w.stuck = true
	_, err := w.release(false, false)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Fatalf("without force: got %v", err)
	}

	w.mounts = []string{"/csi/v/mount"}
	_, err = w.release(true, false)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Fatalf("mounted, with force: got %v", err)
	}

	w.mounts = nil
	resp, err := w.release(true, false)
	if err != nil || resp.Proof != structs.DetachNotMounted {
		t.Fatalf("with force: got %+v, error %v", resp, err)
	}
	wantAll(t, resp.Detail, "sees nothing of volume", "plugin p has no row any more")
}

// TestDetach_DeletesAnAttachmentWithoutTheRowsOfItsNodeAndPlugin: no call will ever fail, so nobody waits for
// one.
func TestDetach_DeletesAnAttachmentWithoutTheRowsOfItsNodeAndPlugin(t *testing.T) {
	w := newWorld(t)
	w.silent = true
	attachments := mvcc.NewTable("csi_attachments", func(a *structs.CSIAttachment) mvcc.Key {
		return mvcc.KeyOf(a.Namespace, a.VolumeID, a.NodeID)
	})
	w.loadTables([]mvcc.AnyTable{attachments}, func(tx *mvcc.WriteTx) error {
		attachments.Put(tx, &structs.CSIAttachment{
			Namespace: "default",
			VolumeID:  "v",
			NodeID:    "n1",
			PluginID:  "p",
			State:     structs.AttachmentDetaching,
		})
		return nil
	})
	resp := &structs.CSIVolumeDetachResponse{}
	_, err := w.Detach(t.Context(), &structs.CSIVolumeDetachRequest{
		VolumeID: "v",
		NodeID:   "n1",
		Force:    true,
		Reason:   "it burnt",
	}, resp)
	if err != nil || resp.Proof != structs.DetachForgotten ||
		csi.Attachment(w.Store.Read(), "default", "v", "n1") != nil {
		t.Fatalf("got %+v, error %v", resp, err)
	}
	wantAll(t, resp.Detail, "node n1 has no row any more", "plugin p has no row any more")
}

func TestDryRun_ChangesNothing(t *testing.T) {
	for _, force := range []bool{false, true} {
		w := newWorld(t)
		w.load(orphan())
		w.addNode()
		w.mounts = []string{"/csi/v/mount"}
		resp, err := w.release(force, true)
		if err != nil || slices.Contains(w.called, nodecalls.ClientCSINodeDetach.Name) {
			t.Errorf("force %t: called %v, error %v", force, w.called, err)
		}
		wantAll(t, strings.Join(resp.Steps, "\n"), "is called to unmount", "the claim on volume \"v\" is deleted")
		where := resp.Rejected
		if !force {
			where = strings.Join(resp.Unproved, "\n")
		}
		wantAll(t, where, "/csi/v/mount")
	}
}

func TestClaim_ThatWaitsNeedsNoNode(t *testing.T) {
	w := newWorld(t)
	c := orphan()
	c.State = structs.ClaimWaiting
	w.load(c)
	resp, err := w.release(false, false)
	if err != nil || resp.Proof != structs.DetachNeverGranted || len(w.called) != 0 {
		t.Errorf("got %+v, error %v, called %v", resp, err, w.called)
	}
}

// A forced detach is decided about the allocations that were shown. Another one, that has come since then,
// keeps its claim.
func TestDetach_ByForceReleasesOnlyWhatWasShown(t *testing.T) {
	for name, c := range map[string]struct {
		shown    *structs.DetachShown
		conflict bool
	}{
		"a caller that does not tell": {nil, false},
		"it was shown":                {&structs.DetachShown{Allocs: []string{"a1"}}, false},
		"another one was shown":       {&structs.DetachShown{Allocs: []string{"a0"}}, true},
		"none was shown":              {&structs.DetachShown{}, true},
	} {
		w := newWorld(t)
		w.load(orphan())
		w.silent = true
		_, err := w.Detach(t.Context(), &structs.CSIVolumeDetachRequest{
			VolumeID: "v",
			NodeID:   "n1",
			Force:    true,
			Reason:   "it burnt",
			Shown:    c.shown,
		}, &structs.CSIVolumeDetachResponse{})
		w.wantReleased(name, err, c.conflict, "you were not shown it")

		w = newWorld(t)
		w.load(orphan())
		w.silent = true
		_, err = w.ForceClaim(t.Context(), &structs.VolumeClaimReleaseRequest{
			VolumeID: "v",
			AllocID:  "a1",
			Reason:   "it burnt",
			Shown:    c.shown,
		}, &structs.VolumeClaimReleaseResponse{})
		w.wantReleased(name+", of one claim", err, c.conflict, "you were not shown it")
	}
}

// wantReleased checks that a release has released the claim, or that it is a conflict and has called no node.
func (w *world) wantReleased(what string, err error, conflict bool, says string) {
	w.t.Helper()
	held := csi.Claim(w.Store.Read(), "default", "v", "a1") != nil
	if structs.IsKind(err, structs.KindConflict) != conflict || held != conflict ||
		err != nil && (!strings.Contains(err.Error(), says) || len(w.called) > 0) {
		w.t.Errorf("%s: %v, the claim is there: %t, called %v", what, err, held, w.called)
	}
}

// A request about a volume that was deleted and made anew since then calls no node of the new one.
func TestDetach_IsAboutTheVolumeThatWasSeen(t *testing.T) {
	volume := &structs.CSIVolume{
		Namespace: "default", ID: "v",
		CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p"},
	}
	made := newWorld(t).log.Index() // of what load puts into a world
	const says = "was deleted and made anew"
	for _, created := range []uint64{0, made, made - 1} {
		w := newWorld(t)
		w.load(orphan(), volume)
		w.addNode()
		_, err := w.Detach(t.Context(), &structs.CSIVolumeDetachRequest{
			VolumeID:     "v",
			NodeID:       "n1",
			WriteOptions: structs.WriteOptions{Created: created},
		}, &structs.CSIVolumeDetachResponse{})
		w.wantReleased(fmt.Sprintf("detached of row %d", created), err, created == made-1, says)

		w = newWorld(t)
		w.load(orphan(), volume)
		w.addNode()
		_, err = w.Claim(t.Context(), &structs.VolumeClaimReleaseRequest{
			VolumeID:     "v",
			AllocID:      "a1",
			WriteOptions: structs.WriteOptions{Created: created},
		}, &structs.VolumeClaimReleaseResponse{})
		w.wantReleased(fmt.Sprintf("released of row %d", created), err, created == made-1, says)
	}
}
