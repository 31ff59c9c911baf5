package scheduler

import (
	"slices"
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// limited returns a fixture with a node that takes so many volumes, and with volumes.
func limited(t *testing.T, most int64, volumes ...string) *fixture {
	w := newFixture(t)
	n := half("hostpath", structs.CSIKindNode)
	n.NodeInfo.MaxVolumes = most
	w.node(aNode("n1"), n)
	for _, id := range volumes {
		w.volume(id, "hostpath")
	}
	return w
}

// claimAll makes the nodes claim the volumes of a job's live allocations.
func (w *fixture) claimAll(job string) {
	w.t.Helper()
	for _, a := range w.allocs(job) {
		w.claim(a)
	}
}

func writes(source string) func(*structs.Job) {
	return volume(source, structs.CSISingleNodeWriter, false)
}

func perAlloc(source string) func(*structs.Job) {
	return volume(source, structs.CSISingleNodeWriter, true)
}

// TestDuty_K39_K40_ARefreshedLimitMovesAPlacement: a higher limit lets the job in that waits, a lower one
// sends the next job elsewhere. The plugin on the other node names no limit, and berth sets none.
func TestDuty_K39_K40_ARefreshedLimitMovesAPlacement(t *testing.T) {
	w := limited(t, 1, "a", "b", "c", "d", "e")
	report := func(node string, most int64) {
		n := half("hostpath", structs.CSIKindNode)
		n.NodeInfo.MaxVolumes = most
		w.node(aNode(node), n)
	}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		w.job(aJob(id, structs.JobService, writes(id)))
	}
	w.run("a")
	w.claimAll("a")
	p := w.run("b")
	w.wantPlaced("b", "")
	if got := rejections(p, "g"); !strings.HasPrefix(got, "csi-limit: ") {
		t.Errorf("rejections: %s", got)
	}
	report("n1", 1)
	if n := len(w.evals(structs.EvalPending)); n != 0 {
		t.Errorf("the same limit unblocks %d evaluations", n)
	}

	report("n1", 2)
	unblocked := w.evals(structs.EvalPending)
	if len(unblocked) != 1 {
		t.Fatalf("a higher limit unblocks %d evaluations", len(unblocked))
	}
	w.apply(w.process(unblocked[0]))
	w.wantPlaced("b", "0@n1")
	w.claimAll("b")

	report("n1", 1)
	report("n2", 0)
	for _, id := range []string{"c", "d", "e"} {
		w.run(id)
		w.wantPlaced(id, "0@n2")
		w.claimAll(id)
	}
}

// The volume that leaves with the predecessor gives its place to that of the successor.
func TestVolumeLimit_LetsASuccessorExchangeItsVolume(t *testing.T) {
	for _, c := range []struct {
		name        string
		most        int64
		volumes     string
		before, now []func(*structs.Job)
	}{
		{"one", 1, "a b", []func(*structs.Job){writes("a")}, []func(*structs.Job){writes("b")}},
		{"one of each of two at once", 2, "a[0] a[1] b[0] b[1]",
			[]func(*structs.Job){perAlloc("a"), count(2)},
			[]func(*structs.Job){perAlloc("b"), count(2)}},
		{"two for one", 2, "a b c", []func(*structs.Job){writes("a"), writes("b")},
			[]func(*structs.Job){writes("c")}},
		{"one of two", 2, "a b c", []func(*structs.Job){writes("a"), writes("b")},
			[]func(*structs.Job){writes("a"), writes("c")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := limited(t, c.most, strings.Fields(c.volumes)...)
			w.job(aJob("web", structs.JobBatch, c.before...))
			w.run("web")
			w.claimAll("web")
			old := w.allocs("web")
			w.job(aJob("web", structs.JobBatch, c.now...))
			p := w.run("web")
			if len(p.Stop) != len(old) || len(p.Place) != len(old) {
				t.Fatalf("the plan is %s", describe(p))
			}
			for _, a := range p.Place {
				if !slices.ContainsFunc(old, func(o *structs.Allocation) bool { return a.PreviousAllocation == o.ID }) {
					t.Errorf("%s replaces %q", a.Name, a.PreviousAllocation)
				}
			}
		})
	}
}

// The node has no place for the volume of the successor: nothing stops.
func TestVolumeLimit_CountsVolumesThatStayBesideASuccessor(t *testing.T) {
	shared := func(source string) func(*structs.Job) {
		return volume(source, structs.CSIMultiNodeMultipleWriter, false)
	}
	for _, c := range []struct {
		name        string
		before, now func(*structs.Job)
		other       func(*structs.Job) // of another job, which has claimed
	}{
		{"another job uses it", shared("a"), shared("b"), shared("a")},
		{"the successor uses it, too", shared("a"), func(j *structs.Job) { shared("a")(j); shared("b")(j) }, nil},
		{"two for one place", shared("a"), func(j *structs.Job) { shared("b")(j); shared("c")(j) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := limited(t, 1, "a", "b", "c")
			w.job(aJob("web", structs.JobBatch, c.before))
			w.run("web")
			w.claimAll("web")
			if c.other != nil {
				w.job(aJob("other", structs.JobBatch, c.other))
				w.run("other")
				w.claimAll("other")
			}
			w.job(aJob("web", structs.JobBatch, c.now))
			p := w.run("web")
			if len(p.Stop)+len(p.Place) > 0 {
				t.Errorf("the plan is %s", describe(p))
			}
		})
	}
}

// The plugin takes fewer volumes than it has on the node. An exchange does not make them more.
func TestVolumeLimit_LetsANodeAboveItsLimitExchange(t *testing.T) {
	w := limited(t, 2, "a", "b", "c")
	w.job(aJob("other", structs.JobBatch, writes("b")))
	w.run("other")
	w.claimAll("other")
	w.job(aJob("web", structs.JobBatch, writes("a")))
	w.run("web")
	w.claimAll("web")
	lower := half("hostpath", structs.CSIKindNode)
	lower.NodeInfo.MaxVolumes = 1
	w.node(aNode("n1"), lower)
	w.job(aJob("web", structs.JobBatch, writes("c")))
	if p := w.run("web"); len(p.Stop) != 1 || len(p.Place) != 1 {
		t.Errorf("the plan is %s", describe(p))
	}
}

// One of two places is exchanged. The other one is free when the predecessor has ended, and not in its plan.
func TestVolumeLimit_LeavesTheOtherPlacesUntilTheEnd(t *testing.T) {
	w := limited(t, 2, "a", "b", "c", "d")
	two := func(first, second func(*structs.Job)) *structs.Job {
		j := aJob("web", structs.JobBatch, first)
		if second != nil {
			more := aJob("web", structs.JobBatch, second).TaskGroups[0]
			more.Name = "h"
			j.TaskGroups = append(j.TaskGroups, more)
		}
		return j
	}
	w.job(two(func(j *structs.Job) { writes("a")(j); writes("b")(j) }, nil))
	w.run("web")
	w.claimAll("web")
	old := w.allocs("web")[0]
	w.job(two(writes("c"), writes("d")))
	p := w.process(w.eval("web"))
	if len(p.Stop) != 1 || len(p.Place) != 1 || p.Place[0].TaskGroup != "g" {
		t.Fatalf("the plan is %s", describe(p))
	}
	w.apply(p)
	w.client(old, structs.AllocComplete)
	w.release(old)
	if got := csi.Claim(w.s.Read(), structs.DefaultNamespace, "b", old.ID); got != nil {
		t.Fatal("the claim is not released")
	}
	w.run("web")
	w.wantPlaced("web", "0@n1 0@n1")
}
