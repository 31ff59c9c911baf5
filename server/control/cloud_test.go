package control

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/scheduler"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/storage"
)

const gib = 1 << 30

// TestAskedVolumes_OnACloudWithKillsAtEachStep has 1,000 jobs that ask for volumes of classes on a cloud with
// zones whose pools fill. BERTH_TEST_SEED repeats one run, and BERTH_TEST_JOB names the job of its history.
func TestAskedVolumes_OnACloudWithKillsAtEachStep(t *testing.T) {
	jobs := 1000
	if testing.Short() {
		jobs = 100
	}
	w := runCloud(t, cloudSeed(t), jobs)
	t.Logf("%d steps, %d entries, %d volumes made, %d times full, kills %v", w.steps, w.log.Len(), w.cloud.made,
		w.cloud.full, w.kills)
	for _, moment := range []string{
		"before the call CreateVolume", "during the call CreateVolume", "after the call CreateVolume",
		"before the call DeleteVolume", "during the call DeleteVolume", "after the call DeleteVolume",
		"before the entry VolumeOutcome", "after the entry VolumeOutcome",
		"before the entry PlanApply", "after the entry PlanApply",
	} {
		if w.kills[moment] == 0 && !testing.Short() {
			t.Errorf("the leader was never lost %s", moment)
		}
	}
	if w.cloud.full == 0 {
		t.Error("no pool was full")
	}
	if w.keptForLost == 0 && !testing.Short() {
		t.Error("no volume of a replaced allocation was kept until its node was fenced")
	}
}

// TestAskedVolumes_OnACloudAreReproducible has some seeds, each of which is run twice.
func TestAskedVolumes_OnACloudAreReproducible(t *testing.T) {
	for seed := range uint64(4) {
		first := sha256.Sum256([]byte(strings.Join(runCloud(t, seed, 40).history, "\n")))
		second := sha256.Sum256([]byte(strings.Join(runCloud(t, seed, 40).history, "\n")))
		if first != second {
			t.Errorf("two runs of seed %d differ", seed)
		}
	}
}

func cloudSeed(t *testing.T) uint64 {
	text := os.Getenv("BERTH_TEST_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// runCloud lets some jobs come and go, and checks the end. The pools are too small for all of them.
func runCloud(t *testing.T, seed uint64, jobs int) (w *cloudWorld) {
	name := fmt.Sprintf("seed %d", seed)
	t.Run(name, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) {
			w = newCloudWorld(t, seed, int64(jobs)*gib)
			for len(w.jobs) < jobs || w.steps < 6*jobs {
				w.step(jobs)
			}
			w.calmDown()
			w.checkEnd()
			if t.Failed() {
				t.Log(w.story(os.Getenv("BERTH_TEST_JOB")))
			}
		})
	})
	return w
}

// story returns the history of a job, or the end of all.
func (w *cloudWorld) story(job string) string {
	lines := w.history[max(0, len(w.history)-200):]
	if job != "" {
		lines = slices.DeleteFunc(slices.Clone(w.history), func(line string) bool {
			return !strings.Contains(line, job+".") && !strings.Contains(line, job+",")
		})
	}
	return strings.Join(lines, "\n")
}

// step lets one thing happen, and checks what follows from it.
func (w *cloudWorld) step(jobs int) {
	w.steps++
	switch dice := w.IntN(100); {
	case dice < 30:
		w.operate(jobs)
	case dice < 55:
		w.schedule()
	case dice < 80:
		w.control(4)
	case dice < 97:
		w.sortedAgents()[w.IntN(cloudNodes)].step()
	default:
		w.pass(time.Duration(w.Int64N(int64(20 * time.Second))))
	}
	w.check()
}

// schedule makes plans, one at a time. Some get into the log later, when the state is another one.
func (w *cloudWorld) schedule() (did bool) {
	for range 8 {
		tx := w.Store.Read()
		queue, _ := nextEvals(tx, backoffs{}, instant{time.Now(), time.Now()}, 1)
		switch {
		case w.plan != nil:
			plan := w.plan
			w.plan = nil
			_ = try(w, fsm.PlanApply, plan)
		case unblock.Due(tx):
			_ = try(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{Wake: 64, WriteOptions: w.stamp("")})
		case len(queue) == 0:
			return did
		default:
			w.makePlan(tx, queue[0])
		}
		did = true
		if w.plan != nil && !w.calm && w.IntN(4) == 0 {
			return true
		}
	}
	return did
}

func (w *cloudWorld) makePlan(tx *state.ReadTx, eval string) {
	loop := scheduleLoop{w.Deps, scheduler.Process}
	plan, err := loop.planEval(tx, state.Eval(tx, eval))
	if err != nil {
		w.fail("the plan of evaluation %s: %v", eval, err)
		return
	}
	w.plan = plan
}

// control makes some of the calls that rows need.
func (w *cloudWorld) control(most int) (did bool) {
	loop := controllerLoop{Deps: w.Deps}
	tx := w.Store.Read()
	first := map[string]workqueue.Step{} // of each volume
	var serials []string
	for key := range unsettled(tx) {
		s := loop.read(tx, key)
		if s.Act == nil || len(s.Awaits) > 0 || s.Due.After(time.Now()) {
			continue
		}
		other, found := first[s.Serial]
		if !found {
			serials = append(serials, s.Serial)
		}
		if !found || s.Rank < other.Rank {
			first[s.Serial] = s
		}
	}
	w.Shuffle(len(serials), func(i, j int) { serials[i], serials[j] = serials[j], serials[i] })
	for _, serial := range serials[:min(most, len(serials))] {
		err := first[serial].Act(w.ctx)
		if err != nil {
			w.note("%s of %s: %v", first[serial].Op, serial, err)
		}
		did = true
	}
	return did
}

// operate registers a job, or does something to one.
func (w *cloudWorld) operate(jobs int) {
	if len(w.jobs) < jobs && w.IntN(3) > 0 {
		id := fmt.Sprint("job-", len(w.jobs))
		w.jobs = append(w.jobs, id)
		w.register(id)
		return
	}
	if len(w.jobs) == 0 {
		return
	}

	id := w.jobs[w.IntN(len(w.jobs))]
	switch w.IntN(9) {
	case 0, 1:
		w.register(id) // another version, with another count or size
	case 2, 8:
		w.endJob(id, true)
	case 3:
		w.endJob(id, false)
	case 4:
		w.nodeChanges()
	default:
		w.changeVolume(id)
	}
}

func (w *cloudWorld) register(id string) {
	old := state.Job(w.Store.Read(), structs.DefaultNamespace, id)
	r := &structs.VolumeRequest{
		Type:     structs.VolumeTypeCSI,
		Class:    []string{"fast", "slow", "near", "now"}[w.IntN(4)],
		Size:     int64(1+w.IntN(12)) * gib / 2,
		PerAlloc: w.IntN(2) == 0,
	}
	if w.IntN(4) == 0 {
		r.PerAlloc = false
		r.Lifecycle = structs.LifecycleAlloc
	}
	if old != nil {
		r = new(*old.TaskGroups[0].Volumes["data"])
		r.Size += int64(w.IntN(3)) * gib / 2
	}
	g := &structs.TaskGroup{
		Name:          "g",
		Count:         1,
		EphemeralDisk: &structs.EphemeralDisk{},
		Volumes:       map[string]*structs.VolumeRequest{"data": r},
		Tasks: []*structs.Task{{
			Name:      "t",
			Driver:    "exec",
			Config:    map[string]any{"command": "/bin/true"},
			Resources: &structs.Resources{CPU: 10, MemoryMB: 10},
		}},
	}
	if r.PerAlloc || r.Lifecycle != "" {
		g.Count = 1 + w.IntN(3)
	}
	j := &structs.Job{ID: id, Type: structs.JobService, TaskGroups: []*structs.TaskGroup{g}}
	defaults.Canonicalize(j)
	err := try(w, fsm.JobRegister, &structs.JobRegisterRequest{
		Job:          j,
		Eval:         w.evalOf(j, structs.TriggerJobRegister),
		WriteOptions: w.stamp(structs.DefaultNamespace),
	})
	w.note("register %s, count %d, %+v: %v", id, g.Count, *r, err)
}

func (w *cloudWorld) evalOf(j *structs.Job, trigger string) *structs.Evaluation {
	e := structs.NewEval(j, trigger, time.Now().UnixNano())
	e.ID = structs.NewID()
	return e
}

func (w *cloudWorld) endJob(id string, purge bool) {
	j := state.Job(w.Store.Read(), structs.DefaultNamespace, id)
	if j == nil {
		return
	}
	err := try(w, fsm.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        id,
		Purge:        purge,
		Eval:         w.evalOf(j, structs.TriggerJobDeregister),
		WriteOptions: w.stamp(structs.DefaultNamespace),
	})
	w.note("end %s, purge %v: %v", id, purge, err)
}

// changeVolume is the order of a person for a volume of a job.
func (w *cloudWorld) changeVolume(job string) {
	for _, v := range w.volumesOf(job) {
		var err error
		if v.Marked() {
			err = try(w, fsm.VolumeUndelete, &storage.VolumeUndeleteRequest{
				ID: v.ID, WriteOptions: w.stamp(v.Namespace),
			})
		} else {
			err = try(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{
				ID: v.ID, AtOnce: w.IntN(2) == 0, WriteOptions: w.stamp(v.Namespace),
			})
		}
		w.note("a person changes %s, marked %v: %v", v.ID, v.Marked(), err)
	}
}

// nodeChanges takes the connection from a node, gives it back, or fences a lost node. One node of each zone
// keeps its connection.
func (w *cloudWorld) nodeChanges() {
	n := w.sortedAgents()[len(cloudZones)+w.IntN(cloudNodes-len(cloudZones))]
	if n.down && w.IntN(3) == 0 {
		n.fence()
		return
	}
	w.note("node %s is down: %v", n.id, !n.down)
	n.setDown(!n.down)
}
