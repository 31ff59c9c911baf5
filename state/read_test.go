package state_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// ids renders rows by their IDs.
func ids[T any](rows func(func(*T) bool), id func(*T) string) string {
	var out []string
	for r := range rows {
		out = append(out, id(r))
	}
	return strings.Join(out, " ")
}

func TestLists_HaveTheExpectedRows(t *testing.T) {
	w := fullFixture(t) // v is attached to n1 for a1; a2 waits
	w.Job(aJob("k", structs.JobBatch))
	w.Client("n3", "b3", structs.AllocComplete)
	tx := w.Store.Read()
	node := func(n *structs.Node) string { return n.ID }
	alloc := func(a *structs.Allocation) string { return a.ID }
	instance := func(i *structs.CSIPluginInstance) string { return fmt.Sprint(i.Kind, "@", i.NodeID) }
	claim := func(c *structs.CSIClaim) string { return c.AllocID }
	job := func(j *structs.Job) string { return j.ID }
	eval := func(e *structs.Evaluation) string { return e.ID }
	at := func(a *structs.CSIAttachment) string { return a.VolumeID + "@" + a.NodeID }
	volume := func(v *structs.CSIVolume) string { return v.ID }
	plugin := func(p *structs.CSIPluginRow) string { return p.ID }
	for _, c := range []struct{ what, got, want string }{
		{"nodes", ids(state.Nodes(tx), node), "lost n1 n2 n3"},
		{"nodes by prefix", ids(state.NodesByPrefix(tx, "n2"), node), "n2"},
		{"plugins", ids(state.Plugins(tx, ""), plugin), "p"},
		{"plugins by prefix", ids(state.Plugins(tx, "q"), plugin), ""},
		{"instances of a plugin", ids(csi.InstancesByPlugin(tx, "p"), instance),
			"controller@n1 controller@n2 controller@n3 node@n1 node@n2 node@n3"},
		{"instances of one half", ids(csi.InstancesByPluginKind(tx, "p", structs.CSIKindNode), instance),
			"node@n1 node@n2 node@n3"},
		{"instances of a node", ids(csi.InstancesByNode(tx, "n2"), instance), "controller@n2 node@n2"},
		{"volumes of a plugin", ids(csi.VolumesByPlugin(tx, "p"), volume), "hv v"},
		{"volumes of another plugin", ids(csi.VolumesByPlugin(tx, "q"), volume), ""},
		{"claims of a node", ids(csi.ClaimsByNode(tx, "n2"), claim), "a2"},
		{"claims of an allocation", ids(csi.ClaimsByAlloc(tx, "a1"), claim), "a1"},
		{"claims that wait", ids(state.WaitingClaims(tx), claim), "a2"},
		{"claims of a namespace", ids(state.Claims(tx, "default"), claim), "a1 a2"},
		{"claims of another namespace", ids(state.Claims(tx, "other"), claim), ""},
		{"attachments of a volume", ids(csi.AttachmentsByVolume(tx, "default", "v"), at), "v@n1"},
		{"attachments of a node", ids(csi.AttachmentsByNode(tx, "n1"), at), "v@n1"},
		{"attachments that are settled", ids(csi.UnsettledAttachments(tx), at), ""},
		{"jobs", ids(state.Jobs(tx, "default", ""), job), "j k nightly plugin"},
		{"jobs everywhere by prefix", ids(state.Jobs(tx, "*", "p"), job), "plugin"},
		{"jobs of another namespace", ids(state.Jobs(tx, "other", ""), job), ""},
		{"allocations", ids(state.Allocs(tx, "default"), alloc), "a1 a2 a3 b1 b2 b3"},
		{"allocations of another namespace", ids(state.Allocs(tx, "other"), alloc), ""},
		{"allocations by prefix", ids(state.AllocsByPrefix(tx, "*", "b"), alloc), "b1 b2 b3"},
		{"allocations of a job", ids(state.AllocsByJob(tx, "default", "j"), alloc), "b3 a1 a2 a3 b1 b2"},
		{"allocations of a node", ids(state.AllocsByNode(tx, "n3"), alloc), "b3 a3"},
		{"live allocations of a node", ids(state.LiveAllocsByNode(tx, "n3"), alloc), "a3"},
		{"allocations of an evaluation", ids(state.AllocsByEvalFrom(tx, state.Alloc(tx, "a1").EvalID, state.Page{}), alloc), "a1"},
		{"allocations of a plugin", ids(csi.AllocsByPlugin(tx, "p"), alloc), ""},
		{"evaluations by status", ids(state.EvalsByStatus(tx, structs.EvalBlocked), eval), ""}, // b3 freed capacity
		{"evaluations by prefix", ids(state.Evals(tx, "default", "block"), eval), "blocked"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
	if a := state.AllocWithJob(tx, state.Alloc(tx, "a1")); a.Job.ID != "j" ||
		state.Alloc(tx, "a1").Job != nil {
		t.Error("the copy has no job, or the row has one")
	}
	if state.AllocWithJob(tx, nil) != nil {
		t.Error("a missing allocation has a job")
	}
	w.Release("v", "a1")
	if got := ids(csi.UnsettledAttachments(w.Store.Read()), at); got != "v@n1" {
		t.Errorf("got unsettled attachments %q, want v@n1", got)
	}
}

func TestVolumePut_OfAFailedVolumeKeepsItsQueue(t *testing.T) {
	w := threeNodes(t, false)
	v := aVolume("new", "broken")
	v.State, v.ExternalID = structs.VolumeCreating, ""
	put := func() error {
		return try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{v},
			WriteOptions: w.Now(),
		})
	}
	wantKind(t, put(), "")
	w.Claim(aClaim("new", "a1", wr, snw))
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "new",
		Op:           "create",
		Err:          &structs.OperationError{Message: "no such pool"},
		Final:        true,
		WriteOptions: w.Now(),
	})
	w.WantReason("new", "a1", "could not be created: no such pool")
	wantKind(t, w.TryClaim(aClaim("new", "a2", wr, snw)), structs.KindPrecondition)
	v.PluginID = "p"
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     mnr,
		AttachmentMode: structs.CSIFileSystem,
	}}
	wantKind(t, put(), structs.KindConflict) // the waiting claim cannot use it
	v.RequestedCapabilities = nil
	wantKind(t, put(), "")
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "new",
		Op:           "create",
		ExternalID:   "x",
		WriteOptions: w.Now(),
	})
	w.WantClaims("new", map[string]string{"a1": granted})
}
