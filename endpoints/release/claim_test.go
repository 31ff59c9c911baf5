package release

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// world is a Releaser before a state without rows, or with the node n1.
type world struct {
	*Releaser
	t       *testing.T
	fsm     *fsm.FSM
	index   uint64
	entries int
	called  []string
	// mounts are the mounts of the node; silent makes it answer nothing.
	mounts []string
	stuck  bool // the plugin of the node does not unmount
	silent bool
}

func newWorld(t *testing.T) *world {
	store := state.New()
	w := &world{t: t, fsm: fsm.New(store), index: 10}
	w.Releaser = &Releaser{
		Store:  store,
		Raft:   w,
		Nodes:  w,
		Logger: hclog.NewNullLogger(),
	}
	return w
}

// Propose applies an entry at once.
func (w *world) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	w.index++
	w.entries++
	return w.index, w.fsm.Apply(&raft.Log{Index: w.index, Type: raft.LogCommand, Data: entry}), nil
}

// Call is a call to the node.
func (w *world) Call(_ context.Context, _, method string, _, resp any) error {
	w.called = append(w.called, method)
	switch {
	case w.silent:
		return structs.Timeoutf("no answer")
	case method == structs.ClientCSINodeVolume.Name:
		resp.(*structs.ClientCSINodeVolumeResponse).Mounts = w.mounts
	case w.stuck:
		return structs.Unavailablef("no healthy instance of the plugin runs here")
	}
	return nil
}

func (w *world) addNode() {
	w.t.Helper()
	node := &structs.Node{ID: "n1", SecretID: "s", Name: "one", Status: structs.NodeReady, Datacenter: "dc1"}
	_, err := fsm.Propose(w.t.Context(), w, fsm.NodeRegister, &structs.NodeRegisterRequest{Node: node})
	if err != nil {
		w.t.Fatal(err)
	}
	w.entries = 0
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

func (w *world) detachment(force bool) detachment {
	c := orphan()
	return detachment{
		Releaser: *w.Releaser,
		ns:       c.Namespace,
		claim:    c,
		resp:     &structs.CSIVolumeDetachResponse{},
		req: &structs.CSIVolumeDetachRequest{
			VolumeID: c.VolumeID,
			NodeID:   c.NodeID,
			Force:    force,
			Reason:   "it burnt",
		},
	}
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
	w.silent = true
	plain := w.detachment(false)
	_, err := plain.carryOut(t.Context(), plain.plan())
	if !structs.IsKind(err, structs.KindUnavailable) || w.entries != 0 {
		t.Fatalf("without force: got %v, %d entries", err, w.entries)
	}
	wantAll(t, err.Error(), "node n1 has no row any more and cannot report")

	forced := w.detachment(true)
	p := forced.plan()
	wantAll(t, strings.Join(p.unproved, "\n"), "Node n1 has no row any more: nothing proves that it does not write")
	_, err = forced.carryOut(t.Context(), p)
	if err != nil || w.entries != 1 || forced.resp.Proof != structs.DetachVouched {
		t.Fatalf("with force: got %+v, error %v, %d entries", forced.resp, err, w.entries)
	}
	wantAll(t, forced.resp.Detail, "Node n1 has no row any more", "nothing proves",
		"The claim of allocation a1 is released because you assert it")
}

// TestClaim_WithoutTheRowOfItsAllocation is released with the word of its node.
func TestClaim_WithoutTheRowOfItsAllocation(t *testing.T) {
	w := newWorld(t)
	w.addNode()
	d := w.detachment(false)
	_, err := d.carryOut(t.Context(), d.plan())
	if err != nil || d.resp.Proof != structs.DetachLetGo || w.entries != 1 {
		t.Fatalf("got %+v, error %v, %d entries", d.resp, err, w.entries)
	}
	wantAll(t, d.resp.Detail, "Node one (n1) has released volume", "allocation a1 has no row any more")
	if !slices.Equal(w.called, []string{structs.ClientCSINodeDetach.Name}) {
		t.Errorf("called %v", w.called)
	}
}

// TestClaim_WithoutTheRowOfItsPlugin: nothing unmounts the volume, and the node says what it has mounted.
func TestClaim_WithoutTheRowOfItsPlugin(t *testing.T) {
	w := newWorld(t)
	w.addNode()
	w.stuck = true
	plain := w.detachment(false)
	_, err := plain.carryOut(t.Context(), plain.plan())
	if !structs.IsKind(err, structs.KindUnavailable) || w.entries != 0 {
		t.Fatalf("without force: got %v, %d entries", err, w.entries)
	}

	w.mounts = []string{"/csi/v/mount"}
	forced := w.detachment(true)
	_, err = forced.carryOut(t.Context(), forced.plan())
	if !structs.IsKind(err, structs.KindPrecondition) || w.entries != 0 {
		t.Fatalf("mounted, with force: got %v, %d entries", err, w.entries)
	}

	w.mounts = nil
	_, err = forced.carryOut(t.Context(), forced.plan())
	if err != nil || forced.resp.Proof != structs.DetachNotMounted || w.entries != 1 {
		t.Fatalf("with force: got %+v, error %v, %d entries", forced.resp, err, w.entries)
	}
	wantAll(t, forced.resp.Detail, "sees nothing of volume", "plugin p has no row any more")
}

// TestDetach_DeletesAnAttachmentWithoutTheRowsOfItsNodeAndPlugin: no call will ever fail, so nobody waits for
// one.
func TestDetach_DeletesAnAttachmentWithoutTheRowsOfItsNodeAndPlugin(t *testing.T) {
	w := newWorld(t)
	w.silent = true
	found := &structs.CSIAttachmentsFound{Attachments: []*structs.CSIAttachment{{
		Namespace:        "default",
		VolumeID:         "v",
		NodeID:           "n1",
		PluginID:         "p",
		ExternalVolumeID: "ext-v",
		ExternalNodeID:   "ext-n1",
	}}}
	if _, err := fsm.Propose(t.Context(), w, fsm.AttachmentsFound, found); err != nil {
		t.Fatal(err)
	}
	row := state.Attachment(w.Store.Read(), "default", "v", "n1")
	if row == nil {
		t.Fatal("there is no attachment")
	}

	gone := row.Copy()
	gone.PluginID = "q"
	d := w.detachment(true)
	_, err := d.detachAttachment(t.Context(), gone)
	if err != nil || d.resp.Proof != structs.DetachForgotten ||
		state.Attachment(w.Store.Read(), "default", "v", "n1") != nil {
		t.Fatalf("got %+v, error %v", d.resp, err)
	}
	wantAll(t, d.resp.Detail, "node n1 has no row any more", "plugin q has no row any more")
}

func TestDryRun_ChangesNothing(t *testing.T) {
	for _, force := range []bool{false, true} {
		w := newWorld(t)
		w.addNode()
		w.mounts = []string{"/csi/v/mount"}
		d := w.detachment(force)
		resp := &structs.VolumeClaimReleaseResponse{}
		d.describePlan(t.Context(), d.plan(), resp)
		if w.entries != 0 || slices.Contains(w.called, structs.ClientCSINodeDetach.Name) {
			t.Errorf("force %t: called %v, %d entries", force, w.called, w.entries)
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
	d := w.detachment(false)
	d.claim.State = structs.ClaimWaiting
	_, err := d.carryOut(t.Context(), d.plan())
	if err != nil || d.resp.Proof != structs.DetachNeverGranted || len(w.called) != 0 {
		t.Errorf("got %+v, error %v, called %v", d.resp, err, w.called)
	}
}
