package statetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/cluster"
)

// Fixture is a store with functions that fill it. Each of them checks the invariants after its entry.
type Fixture struct {
	T     rapid.TB
	Store *state.Store
	Index uint64
}

// New returns an empty store.
func New(t rapid.TB) *Fixture {
	return &Fixture{
		T:     t,
		Store: state.New(),
		Index: 10,
	}
}

// Try applies one entry at the next index and returns its result.
func Try[P any](w *Fixture, fn func(*state.WriteTx, *P) error, p *P) error {
	w.T.Helper()
	w.Index++
	err := w.Store.Write(w.Index, func(tx *state.WriteTx) error { return fn(tx, p) })
	w.Check()
	return err
}

// Do applies one entry that must succeed.
func Do[P any](w *Fixture, fn func(*state.WriteTx, *P) error, p *P) {
	w.T.Helper()
	if err := Try(w, fn, p); err != nil {
		w.T.Fatalf("at index %d: %v", w.Index, err)
	}
}

// Check checks the invariants.
func (w *Fixture) Check() {
	w.T.Helper()
	for _, fault := range state.Check(w.Store.Read()) {
		w.T.Errorf("after index %d: %s", w.Index, fault)
	}
	if w.T.Failed() {
		w.T.FailNow()
	}
}

// Now returns the options of a request at the time of the next entry.
func (w *Fixture) Now() structs.WriteOptions {
	return structs.WriteOptions{Now: int64(w.Index+1) * 1e9}
}

// Node registers a node with the reports on its plugins.
func (w *Fixture) Node(id string, csi ...*structs.CSIPluginInstance) {
	w.T.Helper()
	Do(w, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         Node(id),
		CSI:          csi,
		WriteOptions: w.Now(),
	})
}

// Job registers a job.
func (w *Fixture) Job(j *structs.Job) *structs.Job {
	w.T.Helper()
	Do(w, state.JobRegister, &structs.JobRegisterRequest{Job: j, WriteOptions: w.Now()})
	return state.Job(w.Store.Read(), j.Namespace, j.ID)
}

// Alloc places an allocation of a job, and registers the job if it is missing.
func (w *Fixture) Alloc(id, job, node string) {
	w.T.Helper()
	j := state.Job(w.Store.Read(), structs.DefaultNamespace, job)
	if j == nil {
		j = w.Job(Job(job, structs.JobService))
	}
	p := w.Plan(j)
	p.Place = []*structs.Allocation{{
		ID:         id,
		Namespace:  j.Namespace,
		JobID:      j.ID,
		JobVersion: j.Version,
		TaskGroup:  "g",
		Name:       structs.AllocName(j.ID, "g", 0),
		NodeID:     node,
	}}
	Do(w, state.PlanApply, p)
	if state.Alloc(w.Store.Read(), id) == nil {
		w.T.Fatalf("the plan that places %s was rejected: %s", id, state.Eval(w.Store.Read(), p.Eval.ID).StatusDescription)
	}
}

// Plan returns an empty plan of a complete evaluation of a job.
func (w *Fixture) Plan(j *structs.Job) *structs.Plan {
	return &structs.Plan{
		JobModifyIndex: j.JobModifyIndex,
		WriteOptions:   w.Now(),
		Eval: &structs.Evaluation{
			ID:        fmt.Sprintf("eval-%d", w.Index),
			Namespace: j.Namespace,
			JobID:     j.ID,
			Type:      j.Type,
			Status:    structs.EvalComplete,
		},
	}
}

// Client sends the status of an allocation.
func (w *Fixture) Client(node, alloc, status string) {
	w.T.Helper()
	Do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       node,
		WriteOptions: w.Now(),
		Allocs:       []*structs.AllocClientUpdate{{ID: alloc, ClientStatus: status}},
	})
}

// Volume registers a volume.
func (w *Fixture) Volume(id, plugin string) {
	w.T.Helper()
	Do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{Volume(id, plugin)},
		WriteOptions: w.Now(),
	})
}

// TryClaim claims volumes.
func (w *Fixture) TryClaim(cs ...*structs.CSIClaim) error {
	w.T.Helper()
	return Try(w, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{Claims: cs, WriteOptions: w.Now()})
}

// Claim claims volumes, and must succeed.
func (w *Fixture) Claim(cs ...*structs.CSIClaim) {
	w.T.Helper()
	if err := w.TryClaim(cs...); err != nil {
		w.T.Fatal(err)
	}
}

// Release reports that a node has released a volume.
func (w *Fixture) Release(volume, alloc string) {
	w.T.Helper()
	Do(w, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		WriteOptions: w.Now(),
		Claims: []structs.CSIClaimKey{{
			Namespace: structs.DefaultNamespace,
			VolumeID:  volume,
			AllocID:   alloc,
		}},
	})
}

// ClaimState returns the state of the claim, "" if there is none.
func (w *Fixture) ClaimState(volume, alloc string) string {
	c := csi.Claim(w.Store.Read(), structs.DefaultNamespace, volume, alloc)
	if c != nil {
		return c.State
	}
	return ""
}

// WantClaims compares the states of the claims on a volume, by allocation.
func (w *Fixture) WantClaims(volume string, want map[string]string) {
	w.T.Helper()
	for alloc, state := range want {
		if got := w.ClaimState(volume, alloc); got != state {
			w.T.Errorf("at index %d: claim of %s for %s is %q, want %q", w.Index, volume, alloc, got, state)
		}
	}
}

// Attachment returns the state of an attachment, "" if there is none.
func (w *Fixture) Attachment(volume, node string) string {
	a := csi.Attachment(w.Store.Read(), structs.DefaultNamespace, volume, node)
	if a != nil {
		return a.State
	}
	return ""
}

// Outcome records the outcome of a call for an attachment.
func (w *Fixture) Outcome(volume, node, op string, failed *structs.OperationError) {
	w.T.Helper()
	Do(w, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:     volume,
		NodeID:       node,
		Op:           op,
		Err:          failed,
		WriteOptions: w.Now(),
	})
}

// WantKind expects an error of a kind.
func WantKind(t rapid.TB, err error, kind structs.Kind) {
	t.Helper()
	if structs.KindOf(err) != kind {
		t.Errorf("got error %v of kind %q, want kind %q", err, structs.KindOf(err), kind)
	}
}

// Stop applies a plan that stops the allocation.
func (w *Fixture) Stop(alloc, clientStatus string) {
	w.T.Helper()
	a := state.Alloc(w.Store.Read(), alloc)
	p := w.Plan(state.Job(w.Store.Read(), a.Namespace, a.JobID))
	p.Stop = []*structs.PlanStop{{
		AllocID:      alloc,
		Description:  "stopped by the test",
		ClientStatus: clientStatus,
	}}
	Do(w, state.PlanApply, p)
}

// Update sends the changed plugin instances of a node.
func (w *Fixture) Update(node string, upserts ...*structs.CSIPluginInstance) {
	w.T.Helper()
	Do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       node,
		Upserts:      upserts,
		WriteOptions: w.Now(),
	})
}

// WantReason expects that a claim waits for a reason, or is not blocked if it says "".
func (w *Fixture) WantReason(volume, alloc, says string) {
	w.T.Helper()
	tx := w.Store.Read()
	c := csi.Claim(tx, structs.DefaultNamespace, volume, alloc)
	if c == nil {
		w.T.Fatalf("no claim of %s for %s", volume, alloc)
	}
	why := csi.ClaimBlocked(tx, c)
	if !strings.Contains(why, says) || (says == "") != (why == "") {
		w.T.Errorf("at index %d: %s waits for %s because %q, want %q", w.Index, alloc, volume, why, says)
	}
}

// Status changes the status of nodes.
func (w *Fixture) Status(status string, ids ...string) {
	w.T.Helper()
	Do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      ids,
		Status:       status,
		Event:        &structs.NodeEvent{Message: "now " + status},
		WriteOptions: w.Now(),
	})
}

// PlanOf returns a plan for job j that places allocations, given as id@node.
func (w *Fixture) PlanOf(j *structs.Job, place ...string) *structs.Plan {
	p := w.Plan(j)
	for _, s := range place {
		id, node, _ := strings.Cut(s, "@")
		p.Place = append(p.Place, &structs.Allocation{
			ID:         id,
			Namespace:  j.Namespace,
			JobID:      j.ID,
			JobVersion: j.Version,
			TaskGroup:  "g",
			NodeID:     node,
		})
	}
	return p
}

// Placed names the given allocations that exist.
func (w *Fixture) Placed(ids ...string) (out string) {
	for _, id := range ids {
		if state.Alloc(w.Store.Read(), id) != nil {
			out += id + " "
		}
	}
	return strings.TrimSpace(out)
}

// Purge deletes a job.
func (w *Fixture) Purge(ns, job string) {
	w.T.Helper()
	Do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        job,
		Purge:        true,
		WriteOptions: structs.WriteOptions{Namespace: ns},
	})
}

// ApplyNamespace stores a namespace.
func (w *Fixture) ApplyNamespace(n *cluster.Namespace) {
	w.T.Helper()
	Do(w, namespace.Apply, &cluster.NamespaceApplyRequest{Definition: n})
}

// WantRejected expects an error of a kind whose text has all parts.
func WantRejected(t rapid.TB, err error, kind structs.Kind, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !structs.IsKind(err, kind) || !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("got error %v, want %s with %q", err, kind, part)
		}
	}
}

// WantEval expects a status of an evaluation.
func (w *Fixture) WantEval(id, status string) {
	w.T.Helper()
	e := state.Eval(w.Store.Read(), id)
	if e == nil || e.Status != status {
		w.T.Errorf("at index %d: evaluation %s is %+v, want %s", w.Index, id, e, status)
	}
}

// Blocked puts a blocked evaluation of its own job, processed with the newest state.
func (w *Fixture) Blocked(job string, on ...string) {
	w.T.Helper()
	Do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
		WriteOptions: w.Now(),
		Evals: []*structs.Evaluation{{
			ID:            "blocked-" + job,
			JobID:         job,
			Status:        structs.EvalBlocked,
			BlockedOn:     on,
			SnapshotIndex: w.Index,
		}},
	})
	w.WantEval("blocked-"+job, structs.EvalBlocked)
}

// Epoch returns the epoch of a node.
func (w *Fixture) Epoch(node string) uint64 {
	return state.Node(w.Store.Read(), node).Epoch
}

// ThreeNodes returns a fixture with a plugin p on nodes n1..n3, a volume v of it, and allocations on each
// node: a1, a2, a3 and b1, b2, b3.
func ThreeNodes(t testing.TB, attach bool) *Fixture {
	w := New(t)
	for _, n := range []string{"1", "2", "3"} {
		csi := []*structs.CSIPluginInstance{Instance("p", structs.CSIKindNode, true)}
		if attach {
			csi = Attaching(append(csi, Instance("p", structs.CSIKindController, true))...)
		}
		w.Node("n"+n, csi...)
		w.Alloc("a"+n, "j", "n"+n)
		w.Alloc("b"+n, "j", "n"+n)
	}
	w.Volume("v", "p")
	return w
}

// ThreeNodesWithDB is ThreeNodes with the job "db", which asks for the volume "v".
func ThreeNodesWithDB(t testing.TB) *Fixture {
	t.Helper()
	w := ThreeNodes(t, false)
	j := Job("db", structs.JobService)
	j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"data": {
		Name:           "data",
		Type:           structs.VolumeTypeCSI,
		Source:         "v",
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}}
	w.Job(j)
	return w
}

// Save saves the state.
func (w *Fixture) Save() []byte {
	w.T.Helper()
	var b bytes.Buffer
	if err := w.Store.Save(&b); err != nil {
		w.T.Fatal(err)
	}
	return b.Bytes()
}

// Restored returns a fixture whose state went back from w's to a saved one.
func (w *Fixture) Restored(saved []byte) *Fixture {
	w.T.Helper()
	back := New(w.T)
	err := back.Store.Load(bytes.NewReader(saved))
	if err != nil {
		w.T.Fatal(err)
	}
	back.Index = max(w.Index, back.Store.Index())
	Do(back, func(tx *state.WriteTx, before *state.ReadTx) error {
		state.Recover(tx, before, 1)
		return nil
	}, w.Store.Read())
	return back
}

// SetAccounted reports that nodes hold no volume without a claim.
func (w *Fixture) SetAccounted(nodes ...string) {
	w.T.Helper()
	Do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      nodes,
		Status:       structs.NodeReady,
		Accounted:    true,
		WriteOptions: w.Now(),
	})
}

// NoteCall records a call for the volume "v" or, with a node, for its attachment there.
func (w *Fixture) NoteCall(node string, call *structs.CSICall) {
	w.T.Helper()
	index := csi.Volume(w.Store.Read(), "default", "v").CreateIndex
	if node != "" {
		index = csi.Attachment(w.Store.Read(), "default", "v", node).CreateIndex
	}
	note := &structs.CSICallNote{
		VolumeID:     "v",
		NodeID:       node,
		RowIndex:     index,
		Call:         call,
		WriteOptions: w.Now(),
	}
	Do(w, csi.CallNote, note)
}

// TryPut puts the volume "v" of plugin "p" with changes.
func (w *Fixture) TryPut(changes ...func(*structs.CSIVolume)) error {
	w.T.Helper()
	v := Volume("v", "p")
	for _, change := range changes {
		change(v)
	}
	return Try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.Now(),
	})
}

// MustPut is TryPut for a put that succeeds.
func (w *Fixture) MustPut(changes ...func(*structs.CSIVolume)) *structs.CSIVolume {
	w.T.Helper()
	if err := w.TryPut(changes...); err != nil {
		w.T.Fatal(err)
	}
	return csi.Volume(w.Store.Read(), "default", "v")
}

// FinishCall records the outcome of a call for the volume "v", and returns it.
func (w *Fixture) FinishCall(op string, failed *structs.OperationError, final bool) *structs.CSIVolume {
	w.T.Helper()
	Do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "v",
		Op:           op,
		ExternalID:   "made",
		Capacity:     100,
		Err:          failed,
		Final:        final,
		Context:      map[string]string{"c": "x"},
		Topologies:   []*structs.CSITopology{{Segments: map[string]string{"zone": "1"}}},
		WriteOptions: w.Now(),
	})
	return csi.Volume(w.Store.Read(), "default", "v")
}

// VolumeRow returns the volume "v".
func (w *Fixture) VolumeRow() *structs.CSIVolume {
	return csi.Volume(w.Store.Read(), "default", "v")
}

// NoteVolumeCall records a call for the volume "v", as the leader does before it makes the call.
func (w *Fixture) NoteVolumeCall(op string) {
	w.T.Helper()
	Do(w, csi.CallNote, &structs.CSICallNote{
		VolumeID:     "v",
		RowIndex:     w.VolumeRow().CreateIndex,
		Call:         &structs.CSICall{NodeID: "n1", Op: op, Time: w.Now().Now},
		WriteOptions: w.Now(),
	})
}
