package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// runTwo runs the job "db" with two volumes, which the plugin makes, and returns their names at the plugin.
func (w *fixture) runTwo() (names []string) {
	w.t.Helper()
	w.job(aJob("db", structs.JobService, asks(gib, true), count(2)))
	w.run("db")
	for i := range 2 {
		w.made(fmt.Sprintf("db.g.data[%d]", i))
	}
	return w.volumeNames("db")
}

// volumeNames returns the names at the plugin of the volumes of a job, by volume ID.
func (w *fixture) volumeNames(job string) (names []string) {
	w.t.Helper()
	for v := range csi.VolumesOfJob(w.s.Read(), structs.DefaultNamespace, job) {
		names = append(names, v.Name)
	}
	return names
}

// ends stops the allocations of the job "db" by a plan, and lets them end.
func (w *fixture) ends() {
	w.t.Helper()
	stopped := w.allocs("db")
	w.apply(w.process(w.eval("db")))
	for _, a := range stopped {
		w.client(a, structs.AllocComplete)
	}
}

// uses returns the IDs of the volumes of the live allocations of a job.
func (w *fixture) uses(job string) (ids []string) {
	w.t.Helper()
	for _, a := range w.allocs(job) {
		for _, u := range a.CSIVolumes {
			ids = append(ids, u.VolumeID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (w *fixture) wantUses(job string, want ...string) {
	w.t.Helper()
	if got := w.uses(job); !slices.Equal(got, want) {
		w.t.Errorf("the allocations of %s use %q, want %q", job, got, want)
	}
}

// A job with another ID is another job, also if its file is the same: beside the old one, after its stop, and
// after its purge.
func TestAskedVolume_OfARenamedJobIsANewOne(t *testing.T) {
	for name, end := range map[string]func(w *fixture){
		"beside the old job": func(*fixture) {},
		"after its stop": func(w *fixture) {
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "db", WriteOptions: w.now()})
			w.ends()
		},
		"after its purge": func(w *fixture) {
			w.purge()
			w.ends()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inZones(t, "a")
			old := w.runTwo()
			end(w)
			w.job(aJob("sql", structs.JobService, asks(gib, true), count(2)))
			w.run("sql")
			w.wantUses("sql", "sql.g.data[0]", "sql.g.data[1]")
			if got := w.volumeNames("db"); !slices.Equal(got, old) {
				t.Errorf("the old job has the volumes %q, want %q", got, old)
			}
			for _, n := range w.volumeNames("sql") {
				if slices.Contains(old, n) {
					t.Errorf("the new job has the volume %q of the old one", n)
				}
			}
		})
	}
}

// The volumes of a job are found again by the same job: after a count of 0, a stop, and a purge.
func TestAskedVolume_IsFoundAgain(t *testing.T) {
	for name, end := range map[string]func(w *fixture){
		"after a count of 0": func(w *fixture) {
			w.job(aJob("db", structs.JobService, asks(gib, true), count(0)))
			w.ends()
			w.wantVolumes("db.g.data[0] ready zone=a 1.0 GiB", "db.g.data[1] ready zone=a 1.0 GiB")
		},
		"after a stop": func(w *fixture) {
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "db", WriteOptions: w.now()})
			w.ends()
			w.wantVolumes("db.g.data[0] ready zone=a 1.0 GiB", "db.g.data[1] ready zone=a 1.0 GiB")
		},
		"after a purge": func(w *fixture) {
			w.purge()
			w.ends()
			w.wantVolumes("db.g.data[0] marked zone=a 1.0 GiB", "db.g.data[1] marked zone=a 1.0 GiB")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inZones(t, "a")
			names := w.runTwo()
			end(w)
			w.wantUses("db")
			w.job(aJob("db", structs.JobService, asks(gib, true), count(2)))
			w.run("db")
			w.wantUses("db", "db.g.data[0]", "db.g.data[1]")
			w.wantVolumes("db.g.data[0] ready zone=a 1.0 GiB", "db.g.data[1] ready zone=a 1.0 GiB")
			if got := w.volumeNames("db"); !slices.Equal(got, names) {
				t.Errorf("the volumes are %q, want %q again", got, names)
			}
		})
	}
}

// A plugin that expands volumes only offline waits for the user of a volume whose job asks for more. The user
// stays, and the reason names it. Once it has ended, the volume is to be expanded before the next one starts.
func TestAskedVolume_GrowsOfflineOnceItsUserHasEnded(t *testing.T) {
	w := inZones(t, "a")
	c := half("p", structs.CSIKindController)
	c.ControllerInfo.SupportsExpand = true
	c.ExpandsOffline = true
	w.csi("n1", c)
	w.job(aJob("db", structs.JobService, asks(gib, false)))
	w.run("db")
	w.made("db.g.data")
	user := w.allocs("db")[0]
	w.claim(user)
	w.client(user, structs.AllocRunning)

	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	w.run("db")
	w.wantPlaced("db", "0@n1")
	volume := func() *structs.CSIVolume {
		return csi.Volume(w.s.Read(), structs.DefaultNamespace, "db.g.data")
	}
	why := csi.ExpandBlocked(w.s.Read(), volume())
	if !strings.Contains(why, "expands a volume only while no node has it: allocation "+user.ID[:8]) {
		t.Errorf("the expansion waits for %q", why)
	}

	w.job(aJob("db", structs.JobService, asks(2*gib, false), count(0)))
	w.ends()
	w.release(user)
	v := volume()
	why = csi.ExpandBlocked(w.s.Read(), v)
	if !v.ExpandPending || why != "" {
		t.Errorf("without a user the expansion waits (pending %v): %s", v.ExpandPending, why)
	}

	w.job(aJob("db", structs.JobService, asks(2*gib, false)))
	w.run("db")
	w.wantPlaced("db", "")
	do(w, state.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID: v.ID, Op: "expand", Capacity: 2 * gib, WriteOptions: w.now(),
	})
	w.pending()
	w.wantPlaced("db", "0@n1")
	if got := volume(); got.Capacity != 2*gib || got.ExpandPending {
		t.Errorf("after the expansion the volume is %+v", got)
	}
}

// A sticky claim is of a job with an ID: another job with the same group makes one of its own, and the old
// one finds its volume again.
func TestSticky_ARenamedJobMakesAClaimOfItsOwn(t *testing.T) {
	w := onNodes(t, "n1")
	w.hostVolume("n1", "data")
	run := func(job string) (claim string) {
		w.job(aJob(job, structs.JobService, hostVolume("", false), stickyHost))
		w.run(job)
		return w.allocs(job)[0].CSIVolumes[0].Claim
	}
	stop := func(job string) {
		do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: job, WriteOptions: w.now()})
		old := w.allocs(job)[0]
		w.run(job)
		w.client(old, structs.AllocComplete)
	}
	first := run("a")
	stop("a")
	if second := run("b"); second == first {
		t.Error("job b has the claim of job a")
	}
	stop("b")
	if again := run("a"); again != first {
		t.Errorf("job a has claim %s, want %s again", again, first)
	}
}
