package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/quota"
	"berth/structs/storage"
)

// inZones makes a node n1, n2 and so on in each zone, and the class "fast".
func inZones(t *testing.T, zones ...string) *fixture {
	t.Helper()
	w := newFixture(t)
	w.zones(zones...)
	w.fast()
	return w
}

// zones makes a node n1, n2 and so on in each zone. They run both halves of the plugin p.
func (w *fixture) zones(zones ...string) {
	w.t.Helper()
	for i, name := range zones {
		n := half("p", structs.CSIKindNode)
		n.NodeInfo.AccessibleTopology = zone(name)
		w.node(aNode(fmt.Sprint("n", i+1)), n, half("p", structs.CSIKindController))
	}
}

func zone(name string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": name}}
}

// fast stores the class "fast" of the plugin p, whose volumes are made for their first allocation and deleted
// an hour after their job.
func (w *fixture) fast(edits ...func(*storage.VolumeClass)) {
	w.t.Helper()
	c := &storage.VolumeClass{
		Name:        "fast",
		PluginID:    "p",
		Reclaim:     storage.ReclaimDelete,
		DeleteAfter: new(time.Hour),
		Binding:     storage.BindFirstConsumer,
	}
	for _, edit := range edits {
		edit(c)
	}
	do(w, csi.ClassPut, &storage.ClassPutRequest{Class: c, WriteOptions: w.now()})
}

const gib = 1 << 30

// asks gives a job a volume "data" of the class "fast".
func asks(size int64, perAlloc bool) func(*structs.Job) {
	return func(j *structs.Job) {
		j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"data": {
			Type:     structs.VolumeTypeCSI,
			Class:    "fast",
			Size:     size,
			PerAlloc: perAlloc,
		}}
	}
}

// tryJob registers a job and returns the error.
func (w *fixture) tryJob(j *structs.Job) error {
	w.index++
	return w.s.Write(w.index, func(tx *state.WriteTx) error {
		return state.JobRegister(tx, &structs.JobRegisterRequest{Job: j, WriteOptions: w.now()})
	})
}

// wantConflict checks that the error of a registration is a conflict with a text.
func wantConflict(t *testing.T, what string, err error, text string) {
	t.Helper()
	if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want a conflict with %q", what, err, text)
	}
}

// volumes describes the volumes of the job "db": ID, state, required zone and size.
func (w *fixture) volumes() (all []string) {
	w.t.Helper()
	for v := range csi.VolumesOfJob(w.s.Read(), structs.DefaultNamespace, "db") {
		place := "anywhere"
		if v.RequestedTopologies != nil {
			place = storage.TopologyText(v.RequestedTopologies.Required[0])
		}
		state := v.State
		if v.Marked() {
			state = "marked"
		}
		size := structs.FormatBytes(v.RequestedCapacityMin)
		all = append(all, fmt.Sprintf("%s %s %s %s", v.ID, state, place, size))
	}
	return all
}

func (w *fixture) wantVolumes(want ...string) {
	w.t.Helper()
	got := w.volumes()
	if !slices.Equal(got, want) {
		w.t.Errorf("the volumes are %q, want %q", got, want)
	}
}

// made records that the plugin has made a volume.
func (w *fixture) made(id string) {
	w.t.Helper()
	v := csi.Volume(w.s.Read(), structs.DefaultNamespace, id)
	o := &structs.CSIVolumeOutcome{
		ID:           id,
		Op:           "create",
		ExternalID:   "x-" + v.Name,
		Capacity:     v.RequestedCapacityMin,
		WriteOptions: w.now(),
	}
	if v.RequestedTopologies != nil {
		o.Topologies = v.RequestedTopologies.Required
	}
	do(w, state.VolumeOutcome, o)
}

// rejected records that the plugin has rejected the creation of a volume with a code.
func (w *fixture) rejected(id, code string) {
	w.t.Helper()
	do(w, state.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           id,
		Op:           "create",
		Err:          &structs.OperationError{Message: "no", Code: code, Kind: structs.KindPrecondition},
		Final:        true,
		WriteOptions: w.now(),
	})
}

func (w *fixture) purge() {
	w.t.Helper()
	p := &structs.JobDeregisterRequest{JobID: "db", Purge: true, WriteOptions: w.now()}
	do(w, state.JobDeregister, p)
}

func TestAskedVolume_IsMadeInThePlaceOfItsFirstAllocation(t *testing.T) {
	w := inZones(t, "a", "b")
	w.job(aJob("db", structs.JobService, asks(10*gib, true), count(2)))
	w.wantVolumes()
	w.run("db")
	for i, a := range w.allocs("db") {
		want := map[string]string{"n1": "zone=a", "n2": "zone=b"}[a.NodeID]
		v := csi.Volume(w.s.Read(), a.Namespace, structs.PerAllocID("db.g.data", a.Index()))
		if v == nil || storage.TopologyText(v.RequestedTopologies.Required[0]) != want {
			t.Errorf("allocation %d is on %s, its volume is %+v", i, a.NodeID, v)
		}
		if !strings.HasSuffix(v.Name, a.ID) {
			t.Errorf("the name %q is not unique by the allocation", v.Name)
		}
	}
}

func TestAskedVolume_WaitsForItsFirstAllocationIfItIsShared(t *testing.T) {
	w := inZones(t, "a", "b")
	shared := func(j *structs.Job) {
		j.TaskGroups[0].Volumes["data"].AccessMode = structs.CSIMultiNodeMultipleWriter
	}
	w.job(aJob("db", structs.JobService, asks(gib, false), shared, count(2)))
	p := w.process(w.eval("db"))
	do(w, state.PlanApply, p) // the new row of the volume may unblock the second allocation
	w.pending()
	if len(w.allocs("db")) != 1 || !strings.Contains(rejections(p, "g"), "it is created for allocation") {
		t.Fatalf("placed %q, rejections %s", w.placed("db"), rejections(p, "g"))
	}

	first := w.allocs("db")[0]
	w.made("db.g.data")
	w.run("db")
	for _, a := range w.allocs("db") {
		if a.NodeID != first.NodeID {
			t.Errorf("it is on %s, where the volume of %s is not reachable", a.NodeID, first.NodeID)
		}
	}
	if len(w.allocs("db")) != 2 {
		t.Errorf("placed %q", w.placed("db"))
	}
}

func TestAskedVolume_IsPlacedElsewhereWhereItsPluginHasSpace(t *testing.T) {
	w := inZones(t, "a", "b")
	w.job(aJob("db", structs.JobService, asks(10*gib, false)))
	w.run("db")
	first := w.allocs("db")[0]
	w.claim(first)
	w.rejected("db.g.data", structs.CSICodeExhausted)
	if !state.Alloc(w.s.Read(), first.ID).Migrate {
		t.Fatal("the allocation without space is not to be replaced")
	}

	w.run("db")
	second := w.allocs("db")[0]
	if second.NodeID == first.NodeID {
		t.Errorf("it is on %s again", first.NodeID)
	}
	w.client(first, structs.AllocComplete)
	w.claim(second)
	w.rejected("db.g.data", structs.CSICodeExhausted)
	p := w.run("db")
	for _, want := range []string{
		"plugin p had no space for 10 GiB", "zone=a", "zone=b", "tried again 5m0s later",
	} {
		if !strings.Contains(rejections(p, "g"), want) {
			t.Errorf("rejections: %s; want %q", rejections(p, "g"), want)
		}
	}
	place := map[string]string{"n1": "a", "n2": "b"}[second.NodeID]
	w.wantVolumes("db.g.data failed zone=" + place + " 10 GiB")

	// A smaller volume may fit.
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	if len(w.allocs("db")) != 1 {
		t.Errorf("a smaller volume: placed %q", w.placed("db"))
	}
}

func TestAskedVolume_StaysWithALowerCountAndIsFoundWithAHigherOne(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(gib, true), count(2)))
	w.run("db")
	w.made("db.g.data[0]")
	w.made("db.g.data[1]")
	name := csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data[1]").Name

	w.job(aJob("db", structs.JobService, asks(gib, true), count(1)))
	w.run("db")
	w.wantVolumes("db.g.data[0] ready zone=a 1.0 GiB", "db.g.data[1] ready zone=a 1.0 GiB")
	w.job(aJob("db", structs.JobService, asks(gib, true), count(2)))
	w.run("db")
	if got := csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data[1]").Name; got != name {
		t.Errorf("the volume is %q, want %q again", got, name)
	}
}

func TestAskedVolume_GrowsAndNeverShrinks(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	w.run("db")
	w.made("db.g.data")
	w.job(aJob("db", structs.JobService, asks(3*gib, false)))
	w.wantVolumes("db.g.data ready zone=a 3.0 GiB")
	if v := csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data"); !v.ExpandPending {
		t.Error("no expansion is requested")
	}

	fault := w.tryJob(aJob("db", structs.JobService, asks(gib, false)))
	wantConflict(t, "a smaller size", fault, "can only grow")
	fault = w.tryJob(aJob("db", structs.JobService, asks(3*gib, true)))
	wantConflict(t, "another per_alloc", fault, "per_alloc = false")
	w.fast(func(c *storage.VolumeClass) { c.Name = "slow" })
	fault = w.tryJob(aJob("db", structs.JobService, asks(3*gib, false), func(j *structs.Job) {
		j.TaskGroups[0].Volumes["data"].Class = "slow"
	}))
	wantConflict(t, "another class", fault, `has the class "fast"`)
	fault = w.tryJob(aJob("db", structs.JobService, asks(3*gib, false), func(j *structs.Job) {
		j.TaskGroups[0].Volumes["data"].Class = "none"
	}))
	if fault == nil {
		t.Error("an unknown class is accepted")
	}
}

func TestAskedVolume_OfAnotherOwnerIsNeverAdopted(t *testing.T) {
	w := inZones(t, "a")
	w.volume("db.g.data", "p")
	fault := w.tryJob(aJob("db", structs.JobService, asks(gib, false)))
	wantConflict(t, "a volume of a person", fault, "no job has asked for it")

	// Both names are the same text.
	group := func(name string) func(*structs.Job) {
		return func(j *structs.Job) { j.TaskGroups[0].Name = name }
	}
	w.job(aJob("a", structs.JobService, asks(gib, false), group("b.c")))
	w.run("a")
	fault = w.tryJob(aJob("a.b", structs.JobService, asks(gib, false), group("c")))
	wantConflict(t, "a volume of another job", fault, `belongs to job "a"`)
}

// TestAskedVolume_OfAnotherOwnerRejectsThePlan has a person who makes the volume between plan and entry.
func TestAskedVolume_OfAnotherOwnerRejectsThePlan(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	p := w.process(w.eval("db"))
	w.volume("db.g.data", "p")
	do(w, state.PlanApply, p)
	if got := w.allocs("db"); len(got) != 0 {
		t.Errorf("%d allocations are placed beside the volume of another owner", len(got))
	}
}

// TestAskedVolume_IsReclaimedInAnyOrder has the purge of the job before and after each other event.
func TestAskedVolume_IsReclaimedInAnyOrder(t *testing.T) {
	for name, c := range map[string]struct {
		events string
		want   string // the state of the volume, "" if its row is gone
	}{
		"before it is made":                {"purge made", "marked"},
		"after it is made":                 {"made purge", "marked"},
		"before its failure":               {"purge invalid", ""},
		"after its failure":                {"invalid purge", ""},
		"with a claim, before its failure": {"claim purge invalid", ""},
		"with a claim, after its failure":  {"claim invalid purge", ""},
		"with a claim":                     {"claim made purge end", "marked"},
		"without space":                    {"purge exhausted", "deleting"},
		"back again":                       {"made purge again", "ready"},
		"with the mark of a person":        {"made purge undelete delete again", "marked"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inZones(t, "a")
			w.job(aJob("db", structs.JobService, asks(gib, false)))
			w.run("db")
			a := w.allocs("db")[0]
			for event := range strings.FieldsSeq(c.events) {
				w.happens(event, a)
			}
			if c.want == "" {
				w.wantVolumes()
				return
			}
			w.wantVolumes("db.g.data " + c.want + " zone=a 1.0 GiB")
		})
	}
}

// happens lets an event happen to the volume of the job "db" and its allocation.
func (w *fixture) happens(event string, a *structs.Allocation) {
	w.t.Helper()
	const id = "db.g.data"
	switch event {
	case "purge":
		w.purge()
		w.apply(w.process(w.eval("db")))
	case "made":
		w.made(id)
	case "invalid":
		w.rejected(id, "InvalidArgument")
	case "exhausted":
		w.rejected(id, structs.CSICodeExhausted)
	case "claim":
		w.claim(a)
	case "end":
		w.client(a, structs.AllocComplete)
		w.release(a)
	case "again":
		w.job(aJob("db", structs.JobService, asks(gib, false)))
	case "undelete":
		p := &storage.VolumeUndeleteRequest{ID: id, WriteOptions: w.now()}
		do(w, csi.VolumeUndelete, p)
	case "delete":
		do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: id, WriteOptions: w.now()})
	}
}

func TestAskedVolume_IsRetainedByItsClass(t *testing.T) {
	w := newFixture(t)
	w.zones("a")
	w.fast(func(c *storage.VolumeClass) { c.Reclaim = storage.ReclaimRetain })
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.made("db.g.data")
	w.purge()
	w.wantVolumes("db.g.data ready zone=a 1.0 GiB")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.wantVolumes("db.g.data ready zone=a 1.0 GiB")
}

func TestAskedVolume_KeepsTheRowOfAStoppedJob(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobBatch, asks(gib, false)))
	w.run("db")
	w.made("db.g.data")
	a := w.allocs("db")[0]
	w.client(a, structs.AllocComplete)
	reap := func() bool {
		w.apply(w.process(w.eval("db")))
		reap := &structs.ReapRequest{Allocs: []string{a.ID}, WriteOptions: w.now()}
		for e := range state.EvalsByJob(w.s.Read(), structs.DefaultNamespace, "db") {
			reap.Evals = append(reap.Evals, e.ID)
		}
		reap.Jobs = []structs.JobKey{{Namespace: structs.DefaultNamespace, ID: "db"}}
		do(w, state.Reap, reap)
		return state.Job(w.s.Read(), structs.DefaultNamespace, "db") == nil
	}

	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "db", WriteOptions: w.now()})
	if reap() {
		t.Fatal("the row of a stopped job with volumes is gone: nobody can purge it")
	}
	w.job(aJob("db", structs.JobBatch, asks(gib, false)))
	w.wantVolumes("db.g.data ready zone=a 1.0 GiB")
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "db", WriteOptions: w.now()})
	w.purge()
	w.wantVolumes("db.g.data marked zone=a 1.0 GiB")
}

// TestAskedVolume_StaysWithinTheQuota has a plan that meets a bound, and an entry that meets one which the
// plan did not see.
func TestAskedVolume_StaysWithinTheQuota(t *testing.T) {
	w := inZones(t, "a")
	w.quota(quota.Bounds{Storage: &quota.StorageBound{Volumes: 1}})
	w.job(aJob("db", structs.JobService, asks(gib, true), count(2)))
	p := w.run("db")
	w.wantVolumes("db.g.data[0] creating zone=a 1.0 GiB")
	if len(w.allocs("db")) != 1 || !strings.Contains(rejections(p, "g"), "volumes") {
		t.Errorf("placed %q, rejections %s", w.placed("db"), rejections(p, "g"))
	}

	w.quota(quota.Bounds{Storage: &quota.StorageBound{Volumes: 2}})
	late := w.process(w.eval("db"))
	w.quota(quota.Bounds{Storage: &quota.StorageBound{Volumes: 1}})
	do(w, state.PlanApply, late)
	w.wantVolumes("db.g.data[0] creating zone=a 1.0 GiB")
	if len(w.allocs("db")) != 1 {
		t.Errorf("an entry beyond the quota: placed %q", w.placed("db"))
	}
}

func TestAskedVolume_IsMadeWithTheJobIfItsClassIsImmediate(t *testing.T) {
	w := newFixture(t)
	w.zones("a")
	w.fast(func(c *storage.VolumeClass) {
		c.Binding = storage.BindImmediate
		c.AllowedTopologies = []*structs.CSITopology{zone("a")}
	})
	w.job(aJob("db", structs.JobService, asks(gib, true), count(2)))
	w.wantVolumes("db.g.data[0] creating zone=a 1.0 GiB", "db.g.data[1] creating zone=a 1.0 GiB")
	p := w.run("db")
	if len(w.allocs("db")) != 0 || !strings.Contains(rejections(p, "g"), "is being created") {
		t.Errorf("placed %q, rejections %s", w.placed("db"), rejections(p, "g"))
	}
	w.made("db.g.data[0]")
	w.made("db.g.data[1]")
	w.run("db")
	if len(w.allocs("db")) != 2 {
		t.Errorf("placed %q", w.placed("db"))
	}
}

func TestAskedVolume_IsMadeOnlyWhereItsClassAllows(t *testing.T) {
	w := newFixture(t)
	w.zones("a", "b")
	w.fast(func(c *storage.VolumeClass) { c.AllowedTopologies = []*structs.CSITopology{zone("b")} })
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.wantPlaced("db", "0@n2")
	w.wantVolumes("db.g.data creating zone=b 1.0 GiB")
}
