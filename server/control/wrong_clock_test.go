package control

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/server/clock"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// stepWall gives the servers a cluster time, and returns a function that sets the wall clock forward: it is
// later then, and the cluster time is not. No loop may run meanwhile, because its timers would end.
func (w *testEnv) stepWall() (step func(time.Duration)) {
	var stepped atomic.Int64
	boot := boottime.Monotonic()
	row := &cluster.ClusterTime{Time: time.Now().UnixNano()}
	row.ModifyIndex = 1
	w.Clock = clock.New(
		func() boottime.Instant { return boot() - boottime.Instant(stepped.Load()) },
		func() *cluster.ClusterTime { return row })
	w.Clock.Now()
	return func(d time.Duration) {
		time.Sleep(d)
		stepped.Add(int64(d))
	}
}

// act is one that cannot be undone.
type act struct {
	begin func(w *testEnv)
	loops []string
	done  func(w *testEnv) bool
	after time.Duration // it happens when so much time has passed
}

// irreversible are the acts of the leader's loops. Those of other packages have tests there.
var irreversible = map[string]act{
	"a marked volume is deleted": {
		begin: func(w *testEnv) { w.markedVolume() },
		loops: []string{"controllers"},
		done:  func(w *testEnv) bool { return w.volume("v") == nil },
		after: day,
	},
	"a snapshot is no longer kept": {
		begin: func(w *testEnv) {
			w.withSchedule(func(s *storage.SnapshotSchedule) { s.KeepFor, s.Keep = day, 1 })
			stop, stopSchedules := w.runLoop("controllers"), w.runLoop("snapshot_schedules")
			after(3*time.Hour + time.Minute)
			stop()
			stopSchedules()
			w.wantScheduled(1, 2, 3)
		},
		loops: []string{"controllers", "snapshot_schedules"},
		done:  func(w *testEnv) bool { return !slices.Contains(w.scheduled(), hourly(1)[0]) },
		after: day,
	},
	"an ended job is collected": {
		begin: func(w *testEnv) {
			put(w, fsm.JobRegister, &structs.JobRegisterRequest{
				WriteOptions: now(),
				Job:          shortJob("j"),
				Eval:         &structs.Evaluation{ID: "e", Status: structs.EvalComplete},
			})
		},
		loops: []string{"gc"},
		done:  func(w *testEnv) bool { return state.Job(w.Store.Read(), "default", "j") == nil },
		after: 4 * time.Hour,
	},
	"an ended evaluation is collected": {
		begin: func(w *testEnv) {
			w.addAlloc("a1", "n1")
			put(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{
				WriteOptions: now(),
				Evals:        []*structs.Evaluation{{ID: "e", JobID: "job-a1", Status: structs.EvalComplete}},
			})
		},
		loops: []string{"gc"},
		done:  func(w *testEnv) bool { return state.Eval(w.Store.Read(), "e") == nil },
		after: time.Hour,
	},
	"a node that is down is collected": {
		begin: func(w *testEnv) {
			put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
				NodeIDs:      []string{"n1"},
				Status:       structs.NodeDown,
				WriteOptions: now(),
			})
		},
		loops: []string{"gc"},
		done:  func(w *testEnv) bool { return state.Node(w.Store.Read(), "n1") == nil },
		after: day,
	},
	"a replacement is placed": {
		begin: func(w *testEnv) {
			w.addAlloc("a1", "n1")
			put(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{
				WriteOptions: now(),
				Evals: []*structs.Evaluation{{
					ID: "e", JobID: "job-a1", Status: structs.EvalPending,
					WaitUntil: time.Now().Add(time.Hour).UnixNano(),
				}},
			})
		},
		loops: []string{"schedule"},
		done:  func(w *testEnv) bool { return state.Eval(w.Store.Read(), "e").Status != structs.EvalPending },
		after: time.Hour,
	},
	"a deployment fails": {
		begin: func(w *testEnv) { w.addDeployment("d", time.Hour, nil) },
		loops: []string{"deployments"},
		done: func(w *testEnv) bool {
			return state.Deployment(w.Store.Read(), "d").Status == structs.DeploymentFailed
		},
		after: time.Hour,
	},
	"a drain is forced": {
		begin: func(w *testEnv) {
			w.addBatch("a1", "n1")
			put(w, fsm.NodeDrain, &structs.NodeDrainRequest{
				NodeID:       "n1",
				DrainSpec:    &structs.DrainSpec{Deadline: time.Hour},
				WriteOptions: now(),
			})
		},
		loops: []string{"drain"},
		done:  func(w *testEnv) bool { return state.Alloc(w.Store.Read(), "a1").Migrate },
		after: time.Hour,
	},
}

// addBatch places an allocation of a batch job, which a drain leaves until its deadline.
func (w *testEnv) addBatch(alloc, node string) {
	w.t.Helper()
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{WriteOptions: now(), Job: &structs.Job{
		ID:         "batch",
		Type:       structs.JobBatch,
		TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1}},
	}})
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   now(),
		JobModifyIndex: state.Job(w.Store.Read(), "default", "batch").JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e-batch", JobID: "batch", Status: structs.EvalComplete},
		Place:          []*structs.Allocation{{ID: alloc, JobID: "batch", TaskGroup: "g", NodeID: node}},
	})
}

func (w *testEnv) runLoopsOf(a act) (stop func()) {
	var stops []func()
	for _, name := range a.loops {
		stops = append(stops, w.runLoop(name))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// A wall clock that is ahead for some minutes does nothing that stays when it is right again, and what is due
// happens when its time has passed.
func TestIrreversibleActs_WaitForTimeThatHasPassed(t *testing.T) {
	for name, a := range irreversible {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				step := w.stepWall()
				w.addNode("n1", true)
				a.begin(w)
				stop := w.runLoopsOf(a)
				after(time.Minute)
				stop()
				step(30 * time.Hour)
				defer w.runLoopsOf(a)()
				after(11 * time.Minute) // more than two intervals of the garbage collection
				if a.done(w) {
					t.Error("it happened by the wall clock")
				}
				after(a.after + 6*time.Minute)
				if !a.done(w) {
					t.Error("it did not happen when its time had passed")
				}
			})
		})
	}
}
