package csi_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

var allClasses = func() (out []structs.ClaimClass) {
	for _, access := range structs.CSIAccessModes {
		for _, attachment := range []structs.CSIAttachmentMode{structs.CSIFileSystem, structs.CSIBlockDevice} {
			for _, mode := range []string{rd, wr} {
				out = append(out, structs.ClaimClass{
					AccessMode:     access,
					AttachmentMode: attachment,
					Mode:           mode,
				})
			}
		}
	}
	return out
}()

// commonClasses are classes of which a volume often has several claims.
var commonClasses = []structs.ClaimClass{
	{AccessMode: mnsw, AttachmentMode: structs.CSIFileSystem, Mode: wr},
	{AccessMode: mnsw, AttachmentMode: structs.CSIFileSystem, Mode: rd},
	{AccessMode: snw, AttachmentMode: structs.CSIFileSystem, Mode: wr},
	{AccessMode: snmw, AttachmentMode: structs.CSIFileSystem, Mode: wr},
	{AccessMode: snmw, AttachmentMode: structs.CSIFileSystem, Mode: rd},
}

// randomCluster changes a small cluster at random: three nodes, an attaching and a plain plugin, three
// volumes, eight allocations. After each step every invariant must hold, and no claim may have overtaken an
// earlier one.
type randomCluster struct {
	*fixture
	r      *rapid.T
	before map[structs.CSIClaimKey]*structs.CSIClaim
}

var (
	someNodes  = []string{"n1", "n2", "n3"}
	somePlugin = []string{"plain", "attaching"}
	someVolume = []string{"v1", "v2", "v3"}
	someAllocs = []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"}
)

func pick[T any](m *randomCluster, label string, from []T) T {
	return rapid.SampledFrom(from).Draw(m.r, label)
}

func (m *randomCluster) flip(label string) bool {
	return rapid.Bool().Draw(m.r, label)
}

// step applies one entry and ignores its error.
func step[P any](m *randomCluster, fn func(*state.WriteTx, *P) error, p *P) {
	_ = try(m.fixture, fn, p)
}

func (m *randomCluster) register() {
	var csi []*structs.CSIPluginInstance
	if m.flip("plain") {
		csi = append(csi, anInstance("plain", structs.CSIKindNode, m.flip("healthy")))
	}
	if m.flip("attaching") {
		csi = append(csi, attaching(anInstance("attaching", structs.CSIKindNode, m.flip("healthy")))...)
	}
	if m.flip("controller") {
		csi = append(csi, attaching(anInstance("attaching", structs.CSIKindController, m.flip("healthy")))...)
		csi[len(csi)-1].ExpandsOffline = m.flip("offline")
	}
	n := aNode(pick(m, "node", someNodes))
	n.NodeClass = pick(m, "class", []string{"", "x"})
	step(m, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         n,
		CSI:          csi,
		WriteOptions: m.Now(),
	})
}

func (m *randomCluster) nodeStatus() {
	step(m, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs: []string{
			pick(m, "node", someNodes),
			pick(m, "node", someNodes),
		},
		Status:       pick(m, "status", []string{structs.NodeReady, structs.NodeDown}),
		WriteOptions: m.Now(),
	})
}

func (m *randomCluster) place() {
	j := state.Job(m.Store.Read(), structs.DefaultNamespace, "j")
	if j == nil || m.flip("new version") {
		spec := aJob("j", structs.JobService)
		spec.Meta = map[string]string{"salt": fmt.Sprint(m.Index)}
		j = m.Job(spec)
	}
	p := m.Plan(j)
	p.Place = []*structs.Allocation{{
		ID:         pick(m, "alloc", someAllocs),
		Namespace:  j.Namespace,
		JobID:      "j",
		JobVersion: j.Version,
		TaskGroup:  "g",
		NodeID:     pick(m, "node", someNodes),
	}}
	step(m, state.PlanApply, p)
}

func (m *randomCluster) stop() {
	j := state.Job(m.Store.Read(), structs.DefaultNamespace, "j")
	if j == nil {
		return
	}
	p := m.Plan(j)
	p.Stop = []*structs.PlanStop{{
		AllocID:      pick(m, "alloc", someAllocs),
		ClientStatus: pick(m, "lost", []string{"", structs.AllocLost}),
	}}
	step(m, state.PlanApply, p)
}

func (m *randomCluster) report() {
	step(m, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		WriteOptions: m.Now(),
		Allocs: []*structs.AllocClientUpdate{{
			ID: pick(m, "alloc", someAllocs),
			ClientStatus: pick(m, "status", []string{
				structs.AllocRunning,
				structs.AllocComplete, structs.AllocFailed,
			}),
		}},
	})
}

func (m *randomCluster) put() {
	v := aVolume(pick(m, "volume", someVolume), pick(m, "plugin", somePlugin))
	v.State, v.RequestedCapacityMin = pick(m, "state", []string{"", structs.VolumeCreating}),
		int64(rapid.IntRange(0, 3).Draw(m.r, "size"))
	if v.State != "" {
		v.ExternalID = ""
	}
	v.Reclaim = pick(m, "reclaim", []string{"", storage.ReclaimRetain, storage.ReclaimDelete})
	if v.Reclaim == storage.ReclaimDelete && m.flip("soon") {
		v.DeleteAfter = new(time.Second)
	}
	if m.flip("capable of one thing") {
		k := pick(m, "capability", allClasses)
		v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
			AccessMode:     k.AccessMode,
			AttachmentMode: k.AttachmentMode,
		}}
	}
	step(m, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: m.Now(),
	})
}

func (m *randomCluster) remove() {
	id := pick(m, "volume", someVolume)
	if m.flip("undelete") {
		step(m, csi.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: id, WriteOptions: m.Now()})
	}
	if m.flip("delete") {
		step(m, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: id, WriteOptions: m.Now()})
		return
	}
	if v := csi.Volume(m.Store.Read(), "default", id); v != nil && v.Marked() {
		step(m, csi.VolumeReclaim, &storage.VolumeReclaimRequest{
			ID:           id,
			RowIndex:     v.CreateIndex,
			DeleteAt:     v.DeleteAt,
			WriteOptions: m.Now(),
		})
		return
	}
	step(m, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID:           id,
		Force:        m.flip("force"),
		WriteOptions: m.Now(),
	})
}

func (m *randomCluster) maybeError() *structs.OperationError {
	if m.flip("ok") {
		return nil
	}
	return &structs.OperationError{Message: "the plugin rejects it", Kind: structs.KindUnavailable}
}

func (m *randomCluster) volumeOutcome() {
	id := pick(m, "volume", someVolume)
	step(m, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:              id,
		Op:              pick(m, "op", []string{"create", "delete", "expand"}),
		ExternalID:      "ext-" + id,
		Err:             m.maybeError(),
		Final:           m.flip("final"),
		WriteOptions:    m.Now(),
		NodeExpandBytes: int64(rapid.IntRange(0, 2).Draw(m.r, "node expand")),
	})
}

// nodeExpanded sends the outcome of an expansion from the node of the claim or from another one.
func (m *randomCluster) nodeExpanded() {
	step(m, csi.NodeExpanded, &structs.CSINodeExpandOutcome{
		VolumeID:     pick(m, "volume", someVolume),
		AllocID:      pick(m, "alloc", someAllocs),
		NodeID:       pick(m, "node", someNodes),
		Bytes:        int64(rapid.IntRange(0, 2).Draw(m.r, "bytes")),
		Err:          m.maybeError(),
		WriteOptions: m.Now(),
	})
}

func (m *randomCluster) claims() {
	var cs []*structs.CSIClaim
	for range rapid.IntRange(1, 3).Draw(m.r, "claims") {
		k := pick(m, "class", allClasses)
		if m.flip("common") {
			k = pick(m, "common class", commonClasses)
		}
		cs = append(cs, &structs.CSIClaim{
			VolumeID:       pick(m, "volume", someVolume),
			AllocID:        pick(m, "alloc", someAllocs),
			Mode:           k.Mode,
			AccessMode:     k.AccessMode,
			AttachmentMode: k.AttachmentMode,
		})
	}
	step(m, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{Claims: cs, WriteOptions: m.Now()})
}

func (m *randomCluster) unpublish() {
	k := structs.CSIClaimKey{VolumeID: pick(m, "volume", someVolume), AllocID: pick(m, "alloc", someAllocs)}
	before := csi.Claim(m.Store.Read(), structs.DefaultNamespace, k.VolumeID, k.AllocID)
	forced := pick(m, "operator", []string{"", "forced"})
	step(m, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		Claims:       []structs.CSIClaimKey{k},
		Operator:     forced,
		WriteOptions: m.Now(),
	})
	if forced == "" || before == nil ||
		m.ClaimState(k.VolumeID, k.AllocID) != "" {
		return
	}
	a := state.Alloc(m.Store.Read(), k.AllocID)
	if a != nil && !a.ClientTerminal() {
		m.r.Fatalf("allocation %s lost volume %s by force and is %s", a.ID, k.VolumeID, a.ClientStatus)
	}
}

func (m *randomCluster) attachmentOutcome() {
	step(m, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:     pick(m, "volume", someVolume),
		NodeID:       pick(m, "node", someNodes),
		Op:           pick(m, "op", []string{"attach", "detach"}),
		Err:          m.maybeError(),
		WriteOptions: m.Now(),
	})
}

func (m *randomCluster) reap() {
	step(m, state.Reap, &structs.ReapRequest{
		Allocs:       []string{pick(m, "alloc", someAllocs)},
		Nodes:        []string{pick(m, "node", someNodes)},
		Evals:        []string{fmt.Sprintf("eval-%d", m.Index/2)},
		Jobs:         []structs.JobKey{{Namespace: structs.DefaultNamespace, ID: "j"}},
		WriteOptions: m.Now(),
	})
}

// excludes reports whether two claims of a volume exclude each other, by their classes or by their nodes.
func excludes(a, b *structs.CSIClaim) bool {
	return a.Class().Conflicts(b.Class()) || a.Class().Bound() && a.NodeID != b.NodeID
}

// checkFairness compares every pair of claims in each queue.
func (m *randomCluster) checkFairness() {
	tx := m.Store.Read()
	now := map[structs.CSIClaimKey]*structs.CSIClaim{}
	for c := range schema.Claims.Scan(tx) {
		now[c.Key()] = c
	}
	for _, c := range now {
		rivals := 0
		for _, o := range now {
			if o.VolumeID == c.VolumeID && o.AllocID != c.AllocID &&
				excludes(o, c) {
				was := m.before[o.Key()]
				if c.GrantIndex == m.Index && o.State == waiting &&
					csi.InQueueOrder(o, c) < 0 && was != nil {
					m.r.Fatalf("allocation %s overtook %s in the queue of %s", c.AllocID, o.AllocID, c.VolumeID)
				}
				if o.State == granted || csi.InQueueOrder(o, c) < 0 {
					rivals++
				}
			}
		}
		v := csi.Volume(tx, c.Namespace, c.VolumeID)
		blocked := csi.VolumeBlock(tx, v) + csi.ClassBlock(tx, v, c.Class()) + csi.NodeBlock(tx, v, c)
		if c.State == waiting && rivals == 0 && blocked == "" {
			m.r.Fatalf("allocation %s waits for %s and nothing blocks it", c.AllocID, c.VolumeID)
		}
		why := csi.ClaimBlocked(tx, c)
		if c.State == waiting && why == "" {
			m.r.Fatalf("allocation %s waits for %s without a reason", c.AllocID, c.VolumeID)
		}
	}
	m.before = now
}

// fill makes all that the steps compete for.
func (m *randomCluster) fill() {
	for _, id := range someNodes {
		m.Node(id, append(attaching(anInstance("attaching", structs.CSIKindNode, true),
			anInstance("attaching", structs.CSIKindController, true)),
			anInstance("plain", structs.CSIKindNode, true))...)
	}
	for n, id := range someVolume {
		m.Volume(id, somePlugin[min(n, 1)])
	}
	for n, id := range someAllocs {
		m.Alloc(id, "j", someNodes[n%len(someNodes)])
	}
}

func TestClaimQueue_IsFair(t *testing.T) {
	often := []func(*randomCluster){
		(*randomCluster).claims,
		(*randomCluster).claims,
		(*randomCluster).claims,
		(*randomCluster).unpublish,
		(*randomCluster).unpublish,
		(*randomCluster).attachmentOutcome,
		(*randomCluster).attachmentOutcome,
		(*randomCluster).place,
		(*randomCluster).volumeOutcome,
		(*randomCluster).nodeExpanded,
	}
	seldom := []func(*randomCluster){
		(*randomCluster).register,
		(*randomCluster).nodeStatus,
		(*randomCluster).stop,
		(*randomCluster).report,
		(*randomCluster).put,
		(*randomCluster).remove,
		(*randomCluster).reap,
	}
	rapid.Check(t, func(r *rapid.T) {
		m := &randomCluster{fixture: newFixture(r), r: r}
		m.fill()
		for range rapid.IntRange(1, 120).Draw(r, "steps") {
			if rapid.IntRange(0, 5).Draw(r, "seldom") == 0 {
				pick(m, "step", seldom)(m)
			} else {
				pick(m, "step", often)(m)
			}
			m.checkFairness()
		}
	})
}

func TestClaimClass_ConflictIsSymmetric(t *testing.T) {
	for _, a := range allClasses {
		for _, b := range allClasses {
			if a.Conflicts(b) != b.Conflicts(a) {
				t.Errorf("the conflict of %s and %s is not symmetric", a, b)
			}
		}
	}
	if len(allClasses) != 28 ||
		len(slices.Compact(slices.Clone(allClasses))) != 28 {
		t.Errorf("got %d classes, want 28 that differ", len(allClasses))
	}
}

// TestClaimCounts_PerClass puts, changes and deletes claims and compares the stored counts with the counted
// ones.
func TestClaimCounts_PerClass(t *testing.T) {
	one := func(r *rapid.T, from ...string) string {
		return rapid.SampledFrom(from).Draw(r, "of")
	}
	rapid.Check(t, func(r *rapid.T) {
		s := state.New()
		_ = s.Write(1, func(tx *state.WriteTx) error {
			for range rapid.IntRange(0, 40).Draw(r, "changes") {
				c := &structs.CSIClaim{
					Namespace:      "default",
					VolumeID:       one(r, "v", "w"),
					AllocID:        one(r, "1", "2", "3", "4", "5"),
					State:          one(r, waiting, granted),
					AccessMode:     structs.CSIAccessMode(one(r, "multi-node-reader-only", "single-node-writer", "another")),
					AttachmentMode: structs.CSIFileSystem,
					Mode:           one(r, rd, wr),
				}
				if rapid.Bool().Draw(r, "drop") {
					csi.DropClaim(tx, c)
				} else {
					csi.StoreClaim(tx, c)
				}
			}
			return nil
		})
		tx := s.Read()
		for _, volume := range []string{"v", "w"} {
			found := map[structs.ClaimClass]structs.CSIClassCount{}
			for c := range schema.Claims.Scan(tx, "default", volume) {
				k := c.Class()
				n := found[k]
				n.AccessMode = k.AccessMode
				n.AttachmentMode = k.AttachmentMode
				n.Mode = k.Mode
				*n.In(c.State)++
				found[k] = n
			}
			kept := csi.ClassCounts(tx, "default", volume)
			if len(kept) != len(found) || (len(found) == 0) != (schema.ClaimQueues.Get(tx, "default", volume) == nil) {
				r.Fatalf("%s: kept %v, found %v", volume, kept, found)
			}
			for _, n := range kept {
				if found[n.Class()] != n {
					r.Fatalf("%s: kept %v, found %v", volume, n, found[n.Class()])
				}
			}
		}
	})
}
