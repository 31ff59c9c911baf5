package state_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// fixture is a store with functions that fill it. Each of them checks the invariants after its entry.
type fixture struct {
	t     rapid.TB
	s     *state.Store
	index uint64
}

func newFixture(t rapid.TB) *fixture {
	return &fixture{
		t:     t,
		s:     state.New(),
		index: 10,
	}
}

// try applies one entry at the next index and returns its result.
func try[P any](w *fixture, fn func(*state.WriteTx, *P) error, p *P) error {
	w.t.Helper()
	w.index++
	err := w.s.Write(w.index, func(tx *state.WriteTx) error { return fn(tx, p) })
	w.check()
	return err
}

// do applies one entry that must succeed.
func do[P any](w *fixture, fn func(*state.WriteTx, *P) error, p *P) {
	w.t.Helper()
	if err := try(w, fn, p); err != nil {
		w.t.Fatalf("at index %d: %v", w.index, err)
	}
}

func (w *fixture) check() {
	w.t.Helper()
	for _, fault := range state.Check(w.s.Read()) {
		w.t.Errorf("after index %d: %s", w.index, fault)
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

func (w *fixture) now() structs.WriteOptions {
	return structs.WriteOptions{Now: int64(w.index+1) * 1e9}
}

func aNode(id string) *structs.Node {
	return &structs.Node{
		ID:         id,
		Name:       "name-" + id,
		SecretID:   "secret-" + id,
		Datacenter: "dc1",
		Status:     structs.NodeReady,
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 4000},
			Memory: structs.NodeMemoryResources{MemoryMB: 4000},
			Disk:   structs.NodeDiskResources{DiskMB: 40000},
		},
	}
}

func anInstance(plugin string, kind structs.CSIKind, healthy bool) *structs.CSIPluginInstance {
	i := &structs.CSIPluginInstance{
		Kind: kind,
		CSIInfo: structs.CSIInfo{
			PluginID:        plugin,
			Healthy:         healthy,
			Provider:        "provider-" + plugin,
			ProviderVersion: "1",
		},
	}
	if kind == structs.CSIKindController {
		i.ControllerInfo = &structs.CSIControllerInfo{
			SupportsCreateDelete:          true,
			SupportsSingleNodeMultiWriter: true,
		}
	} else {
		i.NodeInfo = &structs.CSINodeInfo{ID: "external", MultiWriter: true}
	}
	return i
}

// attachingHalves returns both healthy halves of a plugin that attaches.
func attachingHalves(plugin string) []*structs.CSIPluginInstance {
	return attaching(
		anInstance(plugin, structs.CSIKindNode, true),
		anInstance(plugin, structs.CSIKindController, true),
	)
}

// attaching makes the plugin of the reports one whose controller attaches.
func attaching(is ...*structs.CSIPluginInstance) []*structs.CSIPluginInstance {
	for _, i := range is {
		i.RequiresControllerPlugin = true
		if i.ControllerInfo != nil {
			i.ControllerInfo.SupportsAttachDetach = true
		}
	}
	return is
}

func (w *fixture) node(id string, csi ...*structs.CSIPluginInstance) {
	w.t.Helper()
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         aNode(id),
		CSI:          csi,
		WriteOptions: w.now(),
	})
}

func aJob(id, kind string, plugins ...string) *structs.Job {
	g := &structs.TaskGroup{
		Name:  "g",
		Count: 1,
		Tasks: []*structs.Task{{
			Name:      "t",
			Driver:    "exec",
			Resources: &structs.Resources{CPU: 100, MemoryMB: 100},
		}},
	}
	for _, p := range plugins {
		g.Tasks = append(g.Tasks, &structs.Task{
			Name: p,
			CSIPluginConfig: &structs.CSIPluginConfig{
				ID:   p,
				Type: structs.CSIPluginMonolith,
			},
		})
	}
	return &structs.Job{
		ID:         id,
		Namespace:  structs.DefaultNamespace,
		Type:       kind,
		Priority:   50,
		TaskGroups: []*structs.TaskGroup{g},
	}
}

func (w *fixture) job(j *structs.Job) *structs.Job {
	w.t.Helper()
	do(w, state.JobRegister, &structs.JobRegisterRequest{Job: j, WriteOptions: w.now()})
	return state.Job(w.s.Read(), j.Namespace, j.ID)
}

// alloc places an allocation of a job, and registers the job if it is missing.
func (w *fixture) alloc(id, job, node string) {
	w.t.Helper()
	j := state.Job(w.s.Read(), structs.DefaultNamespace, job)
	if j == nil {
		j = w.job(aJob(job, structs.JobService))
	}
	p := w.plan(j)
	p.Place = []*structs.Allocation{{
		ID:         id,
		Namespace:  j.Namespace,
		JobID:      j.ID,
		JobVersion: j.Version,
		TaskGroup:  "g",
		Name:       structs.AllocName(j.ID, "g", 0),
		NodeID:     node,
	}}
	do(w, state.PlanApply, p)
	if state.Alloc(w.s.Read(), id) == nil {
		w.t.Fatalf("the plan that places %s was rejected: %s", id, state.Eval(w.s.Read(), p.Eval.ID).StatusDescription)
	}
}

func (w *fixture) plan(j *structs.Job) *structs.Plan {
	return &structs.Plan{
		JobModifyIndex: j.JobModifyIndex,
		WriteOptions:   w.now(),
		Eval: &structs.Evaluation{
			ID:        fmt.Sprintf("eval-%d", w.index),
			Namespace: j.Namespace,
			JobID:     j.ID,
			Type:      j.Type,
			Status:    structs.EvalComplete,
		},
	}
}

func (w *fixture) client(node, alloc, status string) {
	w.t.Helper()
	do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       node,
		WriteOptions: w.now(),
		Allocs:       []*structs.AllocClientUpdate{{ID: alloc, ClientStatus: status}},
	})
}

func aVolume(id, plugin string) *structs.CSIVolume {
	return &structs.CSIVolume{
		ID:         id,
		Name:       id,
		Namespace:  structs.DefaultNamespace,
		PluginID:   plugin,
		ExternalID: "ext-" + id,
	}
}

func (w *fixture) volume(id, plugin string) {
	w.t.Helper()
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{aVolume(id, plugin)},
		WriteOptions: w.now(),
	})
}

func aClaim(volume, alloc, mode string, access structs.CSIAccessMode) *structs.CSIClaim {
	return &structs.CSIClaim{
		Namespace:      structs.DefaultNamespace,
		VolumeID:       volume,
		AllocID:        alloc,
		Mode:           mode,
		AccessMode:     access,
		AttachmentMode: structs.CSIFileSystem,
	}
}

func (w *fixture) tryClaim(cs ...*structs.CSIClaim) error {
	w.t.Helper()
	return try(w, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{Claims: cs, WriteOptions: w.now()})
}

func (w *fixture) claim(cs ...*structs.CSIClaim) {
	w.t.Helper()
	if err := w.tryClaim(cs...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) release(volume, alloc string) {
	w.t.Helper()
	do(w, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		WriteOptions: w.now(),
		Claims: []structs.CSIClaimKey{{
			Namespace: structs.DefaultNamespace,
			VolumeID:  volume,
			AllocID:   alloc,
		}},
	})
}

// claimState returns the state of the claim, "" if there is none.
func (w *fixture) claimState(volume, alloc string) string {
	c := csi.Claim(w.s.Read(), structs.DefaultNamespace, volume, alloc)
	if c != nil {
		return c.State
	}
	return ""
}

func (w *fixture) wantClaims(volume string, want map[string]string) {
	w.t.Helper()
	for alloc, state := range want {
		if got := w.claimState(volume, alloc); got != state {
			w.t.Errorf("at index %d: claim of %s for %s is %q, want %q", w.index, volume, alloc, got, state)
		}
	}
}

func (w *fixture) attachment(volume, node string) string {
	a := csi.Attachment(w.s.Read(), structs.DefaultNamespace, volume, node)
	if a != nil {
		return a.State
	}
	return ""
}

func (w *fixture) outcome(volume, node, op string, failed *structs.OperationError) {
	w.t.Helper()
	do(w, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:     volume,
		NodeID:       node,
		Op:           op,
		Err:          failed,
		WriteOptions: w.now(),
	})
}

func wantKind(t rapid.TB, err error, kind structs.Kind) {
	t.Helper()
	if structs.KindOf(err) != kind {
		t.Errorf("got error %v of kind %q, want kind %q", err, structs.KindOf(err), kind)
	}
}

// stop applies a plan that stops the allocation.
func (w *fixture) stop(alloc, clientStatus string) {
	w.t.Helper()
	a := state.Alloc(w.s.Read(), alloc)
	p := w.plan(state.Job(w.s.Read(), a.Namespace, a.JobID))
	p.Stop = []*structs.PlanStop{{
		AllocID:      alloc,
		Description:  "stopped by the test",
		ClientStatus: clientStatus,
	}}
	do(w, state.PlanApply, p)
}

// update sends the changed plugin instances of a node.
func (w *fixture) update(node string, upserts ...*structs.CSIPluginInstance) {
	w.t.Helper()
	do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       node,
		Upserts:      upserts,
		WriteOptions: w.now(),
	})
}

func (w *fixture) wantReason(volume, alloc, says string) {
	w.t.Helper()
	tx := w.s.Read()
	c := csi.Claim(tx, structs.DefaultNamespace, volume, alloc)
	if c == nil {
		w.t.Fatalf("no claim of %s for %s", volume, alloc)
	}
	why := csi.ClaimBlocked(tx, c)
	if !strings.Contains(why, says) || (says == "") != (why == "") {
		w.t.Errorf("at index %d: %s waits for %s because %q, want %q", w.index, alloc, volume, why, says)
	}
}
