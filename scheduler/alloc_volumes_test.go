package scheduler

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// ownEach gives each allocation of a job a volume of its own.
func ownEach(j *structs.Job) {
	asks(gib, false)(j)
	j.TaskGroups[0].Volumes["data"].Lifecycle = structs.LifecycleAlloc
}

// ownVolume returns the volume of an allocation, nil if it is gone.
func (w *fixture) ownVolume(a *structs.Allocation) *structs.CSIVolume {
	w.t.Helper()
	return csi.Volume(w.s.Read(), a.Namespace, a.CSIVolumes[0].VolumeID)
}

// ownState returns the state of the volume of an allocation, "marked" for one to be deleted, "" for none.
func (w *fixture) ownState(a *structs.Allocation) string {
	w.t.Helper()
	v := w.ownVolume(a)
	switch {
	case v == nil:
		return ""
	case v.Marked() && v.DeleteAt <= w.clock.UnixNano():
		return "marked"
	}
	return v.State
}

func TestAllocVolume_IsMadeForEachAllocationInItsPlace(t *testing.T) {
	w := inZones(t, "a", "b")
	w.job(aJob("db", structs.JobService, ownEach, count(3)))
	w.run("db")
	if n := len(w.allocs("db")); n != 3 || len(w.volumes()) != 3 {
		t.Fatalf("%d allocations have the volumes %q", n, w.volumes())
	}
	for _, a := range w.allocs("db") {
		v := w.ownVolume(a)
		zone := map[string]string{"n1": "a", "n2": "b"}[a.NodeID]
		if v == nil || v.ID != "db.g.data["+a.ID[:8]+"]" || v.AllocID != a.ID ||
			v.RequestedTopologies.Required[0].Segments["zone"] != zone {
			t.Errorf("the volume of %s on %s is %+v", a.ID, a.NodeID, v)
		}
	}
}

// TestAllocVolume_EndsWithItsAllocationInAnyOrder has the rule "delete" of the class an hour later.
func TestAllocVolume_EndsWithItsAllocationInAnyOrder(t *testing.T) {
	for name, c := range map[string]struct{ events, want string }{
		"the job is stopped":                 {"made claim stop", "ready"},
		"the job is stopped, and ends":       {"made claim stop end", "marked"},
		"the job is purged":                  {"made claim purge", "ready"},
		"the job is purged, and ends":        {"made claim purge end", "marked"},
		"a lower count":                      {"made scale", "ready"},
		"a lower count, and ends":            {"made scale end", "marked"},
		"it ends before it is made":          {"end made", "marked"},
		"it is reaped before it is made":     {"stop end reap made", "marked"},
		"it fails":                           {"made fail", "marked"},
		"a claim prevents the deletion":      {"made claim end reclaim", "marked"},
		"the release begins the deletion":    {"made claim end release reclaim", "deleting"},
		"a lost node has the claim":          {"made claim down reclaim", "marked"},
		"an operator releases the claim":     {"made claim down force reclaim", "deleting"},
		"its creation fails":                 {"invalid", "failed"},
		"its creation fails, then it ends":   {"invalid end", ""},
		"it ends, then its creation fails":   {"end invalid", ""},
		"a failed one with a claim":          {"claim invalid end", ""},
		"there is no space":                  {"exhausted end", "deleting"},
		"its deletion is rejected":           {"made end reclaim rejected", "ready"},
		"a person keeps it":                  {"made end undelete", "ready"},
		"a person deletes it, it is not and": {"made now end rejected", "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inZones(t, "a")
			w.job(aJob("db", structs.JobService, ownEach))
			w.run("db")
			a := w.allocs("db")[0]
			for event := range strings.FieldsSeq(c.events) {
				w.ownHappens(event, a)
			}
			if got := w.ownState(a); got != c.want {
				t.Errorf("the volume is %q, want %q: %+v", got, c.want, w.ownVolume(a))
			}
			v := w.ownVolume(a)
			if strings.HasSuffix(c.events, "rejected") && v.DeleteAt <= w.clock.UnixNano() {
				t.Errorf("its deletion is not repeated later: %+v", v)
			}
			for _, fault := range state.Check(w.s.Read()) {
				t.Error(fault)
			}
		})
	}
}

// ownHappens is an event in the life of an allocation and its volume.
func (w *fixture) ownHappens(event string, a *structs.Allocation) {
	w.t.Helper()
	id := a.CSIVolumes[0].VolumeID
	switch event {
	case "made":
		w.made(id)
	case "invalid":
		w.rejected(id, "InvalidArgument")
	case "exhausted":
		w.rejected(id, structs.CSICodeExhausted)
	case "claim":
		w.claim(a)
	case "release":
		w.release(a)
	case "end":
		w.client(a, structs.AllocComplete)
	case "fail":
		w.client(a, structs.AllocFailed)
	case "stop", "purge":
		do(w, state.JobDeregister, &structs.JobDeregisterRequest{
			JobID: "db", Purge: event == "purge", WriteOptions: w.now(),
		})
		w.run("db")
	case "scale":
		w.job(aJob("db", structs.JobService, ownEach, count(0)))
		w.run("db")
	case "reap":
		do(w, state.Reap, &structs.ReapRequest{Allocs: []string{a.ID}, WriteOptions: w.now()})
	case "down":
		w.status(a.NodeID, structs.NodeDown)
		w.run("db")
	case "force":
		do(w, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
			Claims:       []structs.CSIClaimKey{{Namespace: a.Namespace, VolumeID: id, AllocID: a.ID}},
			Operator:     "forced",
			WriteOptions: w.now(),
		})
	case "reclaim":
		w.deleting(id)
	case "rejected":
		do(w, state.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID:           id,
			Op:           "delete",
			Err:          &structs.OperationError{Message: "no", Kind: structs.KindPrecondition},
			Final:        true,
			WriteOptions: w.now(),
		})
	case "undelete":
		do(w, csi.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: id, WriteOptions: w.now()})
	case "now":
		do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{
			ID: id, AtOnce: true, WriteOptions: w.now(),
		})
	}
}

func TestAllocVolume_OfAReplacementIsANewOne(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, ownEach))
	w.run("db")
	first := w.allocs("db")[0]
	w.ownHappens("made", first)
	do(w, state.AllocStop, &structs.AllocStopRequest{AllocID: first.ID, WriteOptions: w.now()})
	w.run("db")
	var second *structs.Allocation
	for a := range state.LiveAllocsByJob(w.s.Read(), structs.DefaultNamespace, "db") {
		second = a
	}
	if second == nil || second.ID == first.ID || w.ownState(second) != structs.VolumeCreating ||
		w.ownState(first) != structs.VolumeReady {
		t.Errorf("the replacement is %+v, the volumes are %q", second, w.volumes())
	}
}

// TestAllocVolume_WithTheNameOfAnotherRejectsThePlan has a person who has the name of the next volume.
func TestAllocVolume_WithTheNameOfAnotherRejectsThePlan(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, ownEach))
	p := w.process(w.eval("db"))
	w.volume("db.g.data["+p.Place[0].ID[:8]+"]", "p")
	do(w, state.PlanApply, p)
	if got := w.allocs("db"); len(got) != 0 {
		t.Errorf("%d allocations are placed beside the volume of another owner", len(got))
	}
	w.run("db")
	if got := w.allocs("db"); len(got) != 1 {
		t.Errorf("%d allocations are placed with another ID", len(got))
	}
}

func TestAllocVolume_IsShownByThePlanOfItsJob(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, ownEach, count(2)))
	j := state.Job(w.s.Read(), structs.DefaultNamespace, "db")
	p := w.process(w.eval("db"))
	made := csi.JobVolumeChanges(w.s.Read(), w.s.Read(), j, p)
	if len(made) != 2 || made[1].ID != "db.g.data[ALLOC]" || made[1].Change != structs.VolumeCreate {
		t.Errorf("the plan makes %+v", made)
	}

	w.apply(p)
	before := w.s.Read()
	w.job(aJob("db", structs.JobService, ownEach, count(1)))
	p = w.process(w.eval("db"))
	gone := csi.JobVolumeChanges(before, w.s.Read(), j, p)
	if len(gone) != 1 || gone[0].Change != structs.VolumeDelete ||
		csi.Volume(before, structs.DefaultNamespace, gone[0].ID).AllocID != p.Stop[0].AllocID {
		t.Errorf("the plan changes %+v", gone)
	}
}

// TestAllocVolume_KeepsNoRowOfItsJob has a job that ends with a class whose rule is "delete".
func TestAllocVolume_KeepsNoRowOfItsJob(t *testing.T) {
	w := inZones(t, "a")
	w.job(aJob("db", structs.JobService, ownEach))
	w.run("db")
	w.ownHappens("made", w.allocs("db")[0])
	w.ownHappens("stop", w.allocs("db")[0])
	j := schema.Jobs.Get(w.s.Read(), structs.DefaultNamespace, "db")
	if csi.KeepsJob(w.s.Read(), j) {
		t.Error("the row of the job stays for the volume of an allocation")
	}
}
