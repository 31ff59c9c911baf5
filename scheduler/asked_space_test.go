package scheduler

import (
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// left records that the plugin has told the space that the class "fast" has in a zone.
func (w *fixture) left(name string, bytes, largest int64) {
	w.t.Helper()
	do(w, csi.VolumeSpace, &storage.SpaceRequest{
		Answers: []*storage.SpaceAnswer{{
			PluginID:  "p",
			Class:     "fast",
			Place:     storage.TopologyText(zone(name)),
			Left:      bytes,
			MaxVolume: largest,
		}},
		WriteOptions: w.now(),
	})
}

func TestAskedVolume_IsMadeWhereThePluginTellsOfSpace(t *testing.T) {
	w := inZones(t, "a", "b")
	w.left("a", gib, 0)
	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	w.run("db")
	w.wantPlaced("db", "0@n2")
	w.wantVolumes("db.g.data creating zone=b 2.0 GiB")
}

// TestAskedVolume_NamesThePlaceWithoutSpace has figures that are wrong: they end with their age.
func TestAskedVolume_NamesThePlaceWithoutSpace(t *testing.T) {
	w := inZones(t, "a", "b")
	w.left("a", gib, 0)
	w.left("b", 9*gib, gib)
	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	p := w.run("db")
	got := rejections(p, "g")
	for _, want := range []string{
		"class fast has 1.0 GiB left in zone=a, 2.0 GiB are asked",
		"class fast has volumes of at most 1.0 GiB in zone=b, 2.0 GiB are asked",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q", got, want)
		}
	}
	w.wantPlaced("db", "")

	w.clock = w.clock.Add(storage.SpaceRetryAfter + time.Second)
	w.run("db")
	if len(w.allocs("db")) != 1 {
		t.Error("an old figure keeps the job out")
	}
}

// TestAskedVolume_OfAClassThatForbidsThePlaceRejectsThePlan has a class that changes between plan and entry.
func TestAskedVolume_OfAClassThatForbidsThePlaceRejectsThePlan(t *testing.T) {
	w := inZones(t, "a", "b")
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	p := w.process(w.eval("db"))
	other := "a"
	if p.Place[0].NodeID == "n1" {
		other = "b"
	}
	w.fast(func(c *storage.VolumeClass) { c.AllowedTopologies = []*structs.CSITopology{zone(other)} })
	do(w, state.PlanApply, p)
	w.wantPlaced("db", "")
	w.wantVolumes()
}

// TestAskedVolume_KnowsNoSpaceOfAPluginThatIsGone has a plugin whose last node leaves.
func TestAskedVolume_KnowsNoSpaceOfAPluginThatIsGone(t *testing.T) {
	w := inZones(t, "a")
	w.left("a", gib, 0)
	do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}, WriteOptions: w.now()})
	if e := csi.Exhausted(w.s.Read(), "p", "fast", zone("a")); e != nil {
		t.Errorf("the record stays: %+v", e)
	}
}
