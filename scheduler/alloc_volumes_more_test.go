package scheduler

import (
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// ownOne returns a fixture with a job whose allocation has a volume of its own.
func ownOne(t *testing.T, events ...string) (*fixture, *structs.Allocation) {
	t.Helper()
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, ownEach))
	w.run("db")
	a := w.allocs("db")[0]
	for _, event := range events {
		w.ownHappens(event, a)
	}
	return w, a
}

// putAgain sends the specification of a volume, as a person does.
func (w *fixture) putAgain(v *structs.CSIVolume) {
	w.t.Helper()
	v.Namespace = structs.DefaultNamespace
	v.PluginID = "p"
	v.Class = "fast"
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes: []*structs.CSIVolume{v}, WriteOptions: w.now(),
	})
}

// TestAllocVolume_ThatAPersonChangesEndsWithItsAllocation: a request has no owner, and takes none away.
func TestAllocVolume_ThatAPersonChangesEndsWithItsAllocation(t *testing.T) {
	for _, event := range []string{"made", "invalid"} {
		w, a := ownOne(t, event)
		v := &structs.CSIVolume{ID: a.CSIVolumes[0].VolumeID}
		if event == "invalid" {
			v.State = structs.VolumeCreating // it is created again
		}
		w.putAgain(v)
		if event == "invalid" {
			w.ownHappens("made", a)
		}
		w.ownHappens("end", a)
		if got := w.ownState(a); got != "marked" {
			t.Errorf("after %s: the volume is %q", event, got)
		}
	}
}

// TestAllocVolume_OfARestoredStateIsOfNobody: its deletion is cancelled, and nothing deletes it by itself.
func TestAllocVolume_OfARestoredStateIsOfNobody(t *testing.T) {
	w, a := ownOne(t, "made", "end")
	do(w, func(tx *state.WriteTx, before *state.ReadTx) error {
		state.Recover(tx, before, w.clock.UnixNano())
		return nil
	}, w.s.Read())
	v := w.ownVolume(a)
	if w.ownState(a) != structs.VolumeReady || v.AllocID != "" || v.JobID != "" {
		t.Errorf("the volume is %+v", v)
	}
}

// TestAllocVolume_EndsAlone: a volume of the job itself, which a person keeps after the purge of the job,
// stays when the allocation that used it ends.
func TestAllocVolume_EndsAlone(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	a := w.allocs("db")[0]
	w.made("db.g.data")
	w.purge()
	do(w, csi.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: "db.g.data", WriteOptions: w.now()})
	w.ownHappens("end", a)
	w.wantVolumes("db.g.data ready zone=a 1.0 GiB")
}

// TestAllocVolume_HasNoNameBeforeItsAllocation: a person has the name that stands for the volumes of all
// allocations in plans, and another job uses it.
func TestAllocVolume_HasNoNameBeforeItsAllocation(t *testing.T) {
	w := inZones(t, "a")
	w.volume("db.g.data[ALLOC]", "p")
	w.job(aJob("other", structs.JobService, volume("db.g.data[ALLOC]", structs.CSISingleNodeWriter, false)))
	w.run("other")
	w.job(aJob("db", structs.JobService, ownEach, count(2)))
	w.run("db")
	w.wantPlaced("other", "0@n1")
	w.wantPlaced("db", "0@n1 1@n1")
}

// TestAllocVolume_IsNotThatOfAnAllocationWithTheSameLetters: the ID of a volume has the first letters of that
// of its allocation.
func TestAllocVolume_IsNotThatOfAnAllocationWithTheSameLetters(t *testing.T) {
	w, first := ownOne(t, "made")
	w.job(aJob("db", structs.JobService, ownEach, count(2)))
	p := w.process(w.eval("db"))
	p.Place[0].ID = first.ID[:8] + p.Place[0].ID[8:]
	do(w, state.PlanApply, p)
	w.wantPlaced("db", "0@n1")
	w.run("db")
	w.wantPlaced("db", "0@n1 1@n1")
}

// TestAllocVolume_IsNotThatOfTheJob: the block changes from one volume of each allocation to one of the job,
// and back.
func TestAllocVolume_IsNotThatOfTheJob(t *testing.T) {
	w, a := ownOne(t)
	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	w.ownHappens("made", a)
	if v := w.ownVolume(a); v.RequestedCapacityMin != gib {
		t.Errorf("the volume of an allocation grows with its job: %+v", v)
	}

	w = inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	w.run("db")
	w.made("db.g.data")
	before := w.s.Read()
	err := w.tryJob(aJob("db", structs.JobService, ownEach))
	if err != nil {
		t.Fatalf("a smaller volume of each allocation: %v", err)
	}
	j := state.Job(w.s.Read(), structs.DefaultNamespace, "db")
	for _, c := range csi.JobVolumeChanges(before, w.s.Read(), j, w.process(w.eval("db"))) {
		if c.ID == "db.g.data" && c.Change == structs.VolumeKeep {
			return
		}
	}
	t.Error("the plan does not show that the volume of the job is kept")
}

// TestAllocVolume_IsMadeWithItsAllocation: also with a class that makes the volumes of a job at once.
func TestAllocVolume_IsMadeWithItsAllocation(t *testing.T) {
	w := newFixture(t)
	w.zones("a")
	w.fast(func(c *storage.VolumeClass) { c.Binding = storage.BindImmediate })
	w.job(aJob("db", structs.JobService, ownEach))
	w.wantVolumes()
	w.run("db")
	if got := len(w.volumes()); got != 1 {
		t.Errorf("the volumes are %q", w.volumes())
	}
}

// TestAllocVolume_CountsAgainstTheLimitOfItsNode, each of those of one plan.
func TestAllocVolume_CountsAgainstTheLimitOfItsNode(t *testing.T) {
	w := inZones(t, "a")
	n := half("p", structs.CSIKindNode)
	n.NodeInfo.AccessibleTopology = zone("a")
	n.NodeInfo.MaxVolumes = 2
	w.csi("n1", n)
	w.job(aJob("db", structs.JobService, ownEach, count(3)))
	p := w.process(w.eval("db"))
	do(w, state.PlanApply, p) // the new volumes wake the evaluation of the third one
	w.wantPlaced("db", "0@n1 1@n1")
}

// TestAllocVolume_LetsACanaryRunBesideItsPredecessor: they share no volume.
func TestAllocVolume_LetsACanaryRunBesideItsPredecessor(t *testing.T) {
	canary := func(j *structs.Job) {
		j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 1, Canary: 1}
	}
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, ownEach, canary))
	w.run("db")
	w.job(aJob("db", structs.JobService, ownEach, canary, cpu(200)))
	w.run("db")
	w.wantPlaced("db", "0@n1 0@n1")
	for _, a := range w.allocs("db") {
		if csi.Volume(w.s.Read(), a.Namespace, a.CSIVolumes[0].VolumeID) == nil {
			t.Errorf("allocation %s has no volume", a.ID)
		}
	}
}
