package scheduler

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/quota"
	"berth/structs/storage"
)

// deleting lets the time of the mark of a volume come.
func (w *fixture) deleting(id string) {
	w.t.Helper()
	v := csi.Volume(w.s.Read(), structs.DefaultNamespace, id)
	do(w, csi.VolumeReclaim, &storage.VolumeReclaimRequest{
		ID:           id,
		RowIndex:     v.CreateIndex,
		DeleteAt:     v.DeleteAt,
		WriteOptions: structs.WriteOptions{Now: v.DeleteAt},
	})
}

// TestAskedVolume_IsMadeAgainAfterItsDeletion has a job that comes back while its volume is deleted.
func TestAskedVolume_IsMadeAgainAfterItsDeletion(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.made("db.g.data")
	a := w.allocs("db")[0]
	w.purge()
	w.apply(w.process(w.eval("db")))
	w.client(a, structs.AllocComplete)
	w.deleting("db.g.data")
	w.wantVolumes("db.g.data deleting zone=a 1.0 GiB")

	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.pending()
	w.wantPlaced("db", "")
	do(w, state.VolumeOutcome, &structs.CSIVolumeOutcome{ID: "db.g.data", Op: "delete", WriteOptions: w.now()})
	w.wantVolumes()
	w.pending()
	w.wantPlaced("db", "0@n1")
	w.wantVolumes("db.g.data creating zone=a 1.0 GiB")
}

// TestAskedVolume_IsTriedAgainWithoutItsFirstAllocation has a node that is lost, and with it the allocation
// for which the volume was to be made, before the plugin answers.
func TestAskedVolume_IsTriedAgainWithoutItsFirstAllocation(t *testing.T) {
	for _, code := range []string{structs.CSICodeExhausted, "InvalidArgument"} {
		w := inZones(t, "a", "b")
		w.job(aJob("db", structs.JobService, asks(gib, false)))
		w.run("db")
		first := w.allocs("db")[0]
		w.status(first.NodeID, structs.NodeDown)
		w.run("db")
		w.pending() // also the evaluation for the lost node
		w.wantPlaced("db", "")
		w.rejected("db.g.data", code)
		w.pending()
		if got := w.allocs("db"); len(got) != 1 || got[0].NodeID == first.NodeID {
			t.Errorf("%s: placed %q, want the other node", code, w.placed("db"))
		}
	}
}

func TestAskedVolume_OfAnImmediateClassIsTriedAgain(t *testing.T) {
	w := newFixture(t)
	w.zones("a")
	w.fast(func(c *storage.VolumeClass) { c.Binding = storage.BindImmediate })
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.wantPlaced("db", "")
	w.rejected("db.g.data", structs.CSICodeExhausted)
	w.pending()
	w.wantPlaced("db", "0@n1")
	w.wantVolumes("db.g.data creating zone=a 1.0 GiB")
}

// TestAskedVolume_ThatFailedHasItsPlaceInTheQuota has a quota that the failed row uses up.
func TestAskedVolume_ThatFailedHasItsPlaceInTheQuota(t *testing.T) {
	w := inZones(t, "a", "b")
	w.quota(quota.Bounds{Storage: &quota.StorageBound{Volumes: 1}})
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	first := w.allocs("db")[0]
	w.rejected("db.g.data", structs.CSICodeExhausted)
	w.run("db")
	if got := w.allocs("db"); len(got) != 1 || got[0].NodeID == first.NodeID {
		t.Errorf("placed %q, want the other node", w.placed("db"))
	}
}

// TestAskedVolume_ThatFailedStaysWithItsFirstAllocation has a second allocation of another zone.
func TestAskedVolume_ThatFailedStaysWithItsFirstAllocation(t *testing.T) {
	w := inZones(t, "a", "b")
	shared := func(j *structs.Job) {
		j.TaskGroups[0].Volumes["data"].AccessMode = structs.CSIMultiNodeMultipleWriter
	}
	w.job(aJob("db", structs.JobService, asks(gib, false), shared, count(2)))
	do(w, state.PlanApply, w.process(w.eval("db"))) // the new row unblocks the evaluation of the second one
	w.pending()
	first := w.placed("db")
	w.claim(w.allocs("db")[0])
	w.rejected("db.g.data", "InvalidArgument")
	w.apply(w.process(w.eval("db")))
	w.pending()
	w.wantPlaced("db", first)
	if got := w.volumes(); !strings.Contains(got[0], "failed") {
		t.Errorf("the volumes are %q: the second allocation has moved one that another waits for", got)
	}
}

// TestAskedVolume_ThatFailedTakesOtherModes has a job that corrects the mode for which the creation failed.
func TestAskedVolume_ThatFailedTakesOtherModes(t *testing.T) {
	w := inZones(t, "a")
	block := func(j *structs.Job) { j.TaskGroups[0].Volumes["data"].AttachmentMode = structs.CSIBlockDevice }
	w.job(aJob("db", structs.JobService, asks(gib, false), block))
	w.run("db")
	w.claim(w.allocs("db")[0])
	w.rejected("db.g.data", "InvalidArgument")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.wantPlaced("db", "0@n1")
	w.wantVolumes("db.g.data creating zone=a 1.0 GiB")
}

func TestAskedVolume_IsNotShrunkByARevert(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.made("db.g.data")
	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	w.index++
	err := w.s.Write(w.index, func(tx *state.WriteTx) error {
		return state.JobRevert(tx, &structs.JobRevertRequest{JobID: "db", JobVersion: 0, WriteOptions: w.now()})
	})
	wantConflict(t, "a revert to a smaller size", err, "can only grow")
}

func TestAskedVolume_GrowsByARevert(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.made("db.g.data")
	do(w, state.JobRevert, &structs.JobRevertRequest{JobID: "db", JobVersion: 0, WriteOptions: w.now()})
	w.wantVolumes("db.g.data ready zone=a 2.0 GiB")
}

// TestAskedVolume_ThatAPersonHasGrownKeepsItsJob has a job that is scaled after that.
func TestAskedVolume_ThatAPersonHasGrownKeepsItsJob(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(gib, true)))
	w.run("db")
	w.made("db.g.data[0]")
	grown := csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data[0]").Copy()
	grown.RequestedCapacityMin = 2 * gib
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{grown},
		WriteOptions: w.now(),
	})
	err := w.tryJob(aJob("db", structs.JobService, asks(gib, true), count(2)))
	if err != nil {
		t.Error(err)
	}
	w.wantVolumes("db.g.data[0] ready zone=a 2.0 GiB")
	err = w.tryJob(aJob("db", structs.JobService, asks(gib/2, true), count(2)))
	wantConflict(t, "a smaller size than before", err, "can only grow")
}

// TestAskedVolume_KeepsItsModes: the volume was made for those of the first registration.
func TestAskedVolume_KeepsItsModes(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.made("db.g.data")
	inMode := func(mode structs.CSIAccessMode) func(*structs.Job) {
		return func(j *structs.Job) { j.TaskGroups[0].Volumes["data"].AccessMode = mode }
	}
	err := w.tryJob(aJob("db", structs.JobService, asks(gib, false), inMode(structs.CSIMultiNodeMultipleWriter)))
	wantConflict(t, "another access mode", err, "was not made for access_mode multi-node-multi-writer")
	wantConflict(t, "another access mode", err, "give the block another name, or delete the volume")
	err = w.tryJob(aJob("db", structs.JobService, asks(gib, false), inMode(structs.CSISingleNodeWriter)))
	if err != nil {
		t.Errorf("the same mode: %v", err)
	}
}

// TestAskedVolume_IsFoundByAnyName has names with the characters of an index.
func TestAskedVolume_IsFoundByAnyName(t *testing.T) {
	w := inZones(t, "a")
	named := func(j *structs.Job) { j.TaskGroups[0].Name = "g[1]" }
	w.job(aJob("db", structs.JobService, asks(gib, true), named))
	w.run("db")
	id := w.allocs("db")[0].CSIVolumes[0].VolumeID
	w.made(id)
	w.purge()
	w.wantVolumes(id + " marked zone=a 1.0 GiB")
	w.job(aJob("db", structs.JobService, asks(2*gib, true), named))
	w.wantVolumes(id + " ready zone=a 2.0 GiB")
}

// TestAskedVolume_IsOfOneBlock has two blocks of a job whose names are the same text.
func TestAskedVolume_IsOfOneBlock(t *testing.T) {
	w := newFixture(t)
	w.fast()
	err := w.tryJob(aJob("db", structs.JobService, asks(gib, false), func(j *structs.Job) {
		j.TaskGroups[0].Volumes["b.c"] = j.TaskGroups[0].Volumes["data"]
		delete(j.TaskGroups[0].Volumes, "data")
		j.TaskGroups[0].Name = "a"
		other := *j.TaskGroups[0]
		other.Name = "a.b"
		other.Volumes = map[string]*structs.VolumeRequest{"c": new(*j.TaskGroups[0].Volumes["b.c"])}
		j.TaskGroups = append(j.TaskGroups, &other)
	}))
	wantConflict(t, "one volume of two blocks", err, `"db.a.b.c"`)
}

// TestAskedVolume_KeepsNoSecretsOfAnotherPlugin has a job that names another class after a failure.
func TestAskedVolume_KeepsNoSecretsOfAnotherPlugin(t *testing.T) {
	w := newFixture(t)
	w.fast(func(c *storage.VolumeClass) {
		c.Binding = storage.BindImmediate
		c.SecretsFrom = "nomad/volumes/{namespace}/{id}"
	})
	w.fast(func(c *storage.VolumeClass) {
		c.Name = "slow"
		c.PluginID = "q"
		c.Binding = storage.BindImmediate
	})
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.rejected("db.g.data", "InvalidArgument")
	w.job(aJob("db", structs.JobService, asks(gib, false), func(j *structs.Job) {
		j.TaskGroups[0].Volumes["data"].Class = "slow"
	}))
	v := csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data")
	if v.PluginID != "q" || v.State != structs.VolumeCreating || v.SecretsFrom != "" {
		t.Errorf("the volume of plugin %s is %s with the secrets %q", v.PluginID, v.State, v.SecretsFrom)
	}
}

// TestAskedVolume_IsComparedWithNoIndex has a count that nobody can count to: a job with many volumes and a
// large count is compared in time.
func TestAskedVolume_IsComparedWithNoIndex(t *testing.T) {
	w := newFixture(t)
	w.zones("a")
	w.fast(func(c *storage.VolumeClass) { c.Reclaim = storage.ReclaimRetain })
	w.job(aJob("db", structs.JobService, asks(gib, true), count(2)))
	w.run("db")
	w.made("db.g.data[0]")
	w.made("db.g.data[1]")
	w.purge()
	j := aJob("db", structs.JobService, asks(gib, true))
	if got := csi.JobVolumeWarning(w.s.Read(), j); !strings.Contains(got, "volume db.g.data[0], which") {
		t.Errorf("got %q, want the volume of the only allocation", got)
	}
	j = aJob("db", structs.JobService, asks(gib, true), count(1<<50), func(j *structs.Job) {
		j.TaskGroups[0].Name = "h"
	})
	if got := csi.JobVolumeWarning(w.s.Read(), j); got != "" {
		t.Errorf("got %q, want none: the job uses other volumes", got)
	}
}

// TestAskedVolume_HasSpaceAfterADeletion has a deletion of another volume of the plugin, within the time.
func TestAskedVolume_HasSpaceAfterADeletion(t *testing.T) {
	w := inZones(t, "a")
	w.volume("other", "p", zone("a"))
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	name := csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data").Name
	w.rejected("db.g.data", structs.CSICodeExhausted)
	w.run("db")
	w.wantPlaced("db", "")
	do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "other", WriteOptions: w.now()})
	do(w, state.VolumeOutcome, &structs.CSIVolumeOutcome{ID: "other", Op: "delete", WriteOptions: w.now()})
	w.run("db")
	w.wantPlaced("db", "0@n1")
	if got := csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data").Name; got != name {
		t.Errorf("the plugin is asked for %q, want %q again: it may have made that one", got, name)
	}
}

// TestAskedVolume_StaysIfItsDeletionFailsForAJobThatIsBack has a plugin that rejects the deletion for good.
func TestAskedVolume_StaysIfItsDeletionFailsForAJobThatIsBack(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.made("db.g.data")
	a := w.allocs("db")[0]
	w.happens("purge", a)
	w.client(a, structs.AllocComplete)
	w.deleting("db.g.data")
	w.wantVolumes("db.g.data deleting zone=a 1.0 GiB")
	w.happens("again", a)
	do(w, state.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "db.g.data",
		Op:           "delete",
		Err:          &structs.OperationError{Message: "no", Kind: structs.KindPrecondition},
		Final:        true,
		WriteOptions: w.now(),
	})
	w.wantVolumes("db.g.data ready zone=a 1.0 GiB")
}

// TestAskedVolume_OfAJobThatStartsOthersIsMadeForEach has a parent whose class is immediate.
func TestAskedVolume_OfAJobThatStartsOthersIsMadeForEach(t *testing.T) {
	w := newFixture(t)
	w.zones("a")
	w.fast(func(c *storage.VolumeClass) { c.Binding = storage.BindImmediate })
	parent := w.job(aJob("db", structs.JobBatch, asks(gib, false), func(j *structs.Job) {
		j.ParameterizedJob = &structs.ParameterizedJobConfig{}
	}))
	w.wantVolumes()

	child := parent.Copy()
	child.ID = "db/dispatch-1"
	child.ParameterizedJob = nil
	do(w, state.JobDispatch, &structs.JobDispatchRequest{
		JobID: "db", JobModifyIndex: parent.JobModifyIndex, Child: child, WriteOptions: w.now(),
	})
	w.run(child.ID)
	a := w.allocs(child.ID)[0]
	if a.CSIVolumes[0].VolumeID == "db.g.data" ||
		csi.Volume(w.s.Read(), a.Namespace, a.CSIVolumes[0].VolumeID) == nil {
		t.Errorf("the child has the volumes %+v", a.CSIVolumes)
	}
}

// TestAskedVolume_GrowsOnceItIsMade has a job that asks for more while a plugin creates its volume: the call
// must not change, and the quota has space for the first size only in one case.
func TestAskedVolume_GrowsOnceItIsMade(t *testing.T) {
	for bound, want := range map[int]string{0: "2.0 GiB", 1: "1.0 GiB"} {
		w := inZones(t, "a")
		w.job(aJob("db", structs.JobService, asks(gib, false)))
		w.run("db")
		w.job(aJob("db", structs.JobService, asks(2*gib, false)))
		w.wantVolumes("db.g.data creating zone=a 1.0 GiB")
		w.quota(quota.Bounds{Storage: &quota.StorageBound{Volumes: 1, VolumeBytes: int64(bound) * gib}})
		w.made("db.g.data")
		w.wantVolumes("db.g.data ready zone=a " + want)
		v := csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data")
		if failed := v.LastError != nil; failed != (bound == 1) {
			t.Errorf("a quota of %d GiB: the error is %+v", bound, v.LastError)
		}
	}
}
