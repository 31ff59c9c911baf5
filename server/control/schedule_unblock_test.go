package control

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/scheduler"
	"berth/state"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/defaults"
)

// addSizedNode adds a node with capacity for a number of allocations of 100 MHz.
func (w *testEnv) addSizedNode(id string, allocs int, attributes map[string]string) {
	w.t.Helper()
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{Node: &structs.Node{
		ID:         id,
		SecretID:   "s",
		Name:       id,
		Datacenter: "dc1",
		Status:     structs.NodeReady,
		Attributes: attributes,
		Drivers:    map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: int64(100 * allocs)},
			Memory: structs.NodeMemoryResources{MemoryMB: 1 << 30},
			Disk:   structs.NodeDiskResources{DiskMB: 1 << 30},
		},
	}})
}

// addJob registers a job that requests count allocations of a number of MHz.
func (w *testEnv) addJob(id string, count, mhz int, edit ...func(*structs.Job)) {
	w.t.Helper()
	job := &structs.Job{
		ID:          id,
		Type:        structs.JobService,
		Datacenters: []string{"dc1"},
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: count,
			Tasks: []*structs.Task{{
				Name:   "t",
				Driver: "exec",
				Resources: &structs.Resources{
					CPU:      mhz,
					MemoryMB: 1,
				},
			}},
		}},
	}
	for _, e := range edit {
		e(job)
	}
	defaults.Canonicalize(job)
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job, Eval: &structs.Evaluation{
		ID:          structs.NewID(),
		TriggeredBy: structs.TriggerJobRegister,
	}})
}

// runningAllocs returns the allocations that have not ended.
func (w *testEnv) runningAllocs() (out []*structs.Allocation) {
	for a := range state.AllocsFrom(w.Store.Read(), structs.AllNamespaces, "", state.Page{}) {
		if !a.ClientTerminal() && a.DesiredStatus == structs.AllocDesiredRun {
			out = append(out, a)
		}
	}
	return out
}

// checkIdle fails the test if an evaluation is blocked although capacity is free, or if one is processed
// although nothing happens.
func (w *testEnv) checkIdle(when string) (waiting int) {
	w.t.Helper()
	after(time.Minute)
	w.check()
	tx := w.Store.Read()
	for e := range state.ReadyEvals(tx) {
		w.t.Errorf("%s: evaluation %s of %s is still pending: %s", when, e.ID, e.JobID, e.StatusDescription)
	}
	for e := range statetest.EvalsByStatus(tx, structs.EvalBlocked) {
		waiting++
		p, err := scheduler.Process(tx, e, time.Now())
		if err != nil || len(p.Place) > 0 {
			w.t.Errorf("%s: %s is blocked although capacity is free: %v, %+v", when, e.JobID, err, e)
		}
	}
	return waiting
}

// Many jobs want different things, while capacity comes and goes.
func TestSchedule_BlockedEvaluationsFindNoCapacity(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				r := rand.New(rand.NewPCG(seed, 0))
				w.Config.SchedulerBatch = 3 + r.IntN(6)
				stop := w.runLoop("schedule")
				defer func() { stop() }()
				w.addSizedNode("n0", 3, nil)
				most := 0
				for step := range 60 {
					switch r.IntN(8) {
					case 0, 1, 2:
						id, mhz := fmt.Sprint("j", r.IntN(40)), 100*(1+r.IntN(3))
						w.addJob(id, 1+r.IntN(3), mhz, func(j *structs.Job) {
							j.Priority = 40 + 10*r.IntN(3)
							switch r.IntN(6) {
							case 0:
								j.Constraints = []*structs.Constraint{{
									LTarget: "${attr.rack}",
									RTarget: fmt.Sprint(r.IntN(3)),
									Operand: "=",
								}}
							case 1:
								j.Constraints = []*structs.Constraint{{Operand: structs.ConstraintDistinctHosts}}
							case 2:
								j.Type, j.TaskGroups[0].Count = structs.JobSystem, 1
							}
						})
					case 3:
						rack := map[string]string{"rack": fmt.Sprint(r.IntN(3))}
						w.addSizedNode(fmt.Sprint("n", r.IntN(6)), 1+r.IntN(5), rack)
					case 4, 5:
						if all := w.runningAllocs(); len(all) > 0 {
							a := all[r.IntN(len(all))]
							w.endAlloc(a.ID, a.NodeID)
						}
					case 6:
						if j := state.Job(w.Store.Read(), "default", fmt.Sprint("j", r.IntN(40))); j != nil {
							put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{
								JobID: j.ID,
								Eval:  &structs.Evaluation{ID: structs.NewID()},
							})
						}
					case 7: // another server leads
						stop()
						w.addSizedNode(fmt.Sprint("n", r.IntN(6)), 1+r.IntN(5), nil)
						stop = w.runLoop("schedule")
					}
					if step%4 == 3 {
						most = max(most, w.checkIdle(fmt.Sprint("step ", step)))
					}
				}
				if most < 3 {
					t.Errorf("at most %d evaluations wait at once: the test shows nothing", most)
				}
			})
		})
	}
}

// An allocation ends. The number of plans does not grow with the jobs that wait for its capacity.
func TestSchedule_CapacityForOneUnblocksFew(t *testing.T) {
	plans := func(waiting int) (made int) {
		virtual(t, func(t *testing.T, w *testEnv) {
			stop := w.schedule(func(tx *state.ReadTx, e *structs.Evaluation, now time.Time) (*structs.Plan, error) {
				made++
				return scheduler.Process(tx, e, now)
			})
			defer stop()
			w.addSizedNode("n0", 2, nil)
			w.addJob("runs", 2, 100)
			synctest.Wait()
			for i := range waiting {
				w.addJob(fmt.Sprint("waits", i), 1, 100)
			}
			if n := w.checkIdle("before"); n != waiting {
				t.Fatalf("%d evaluations wait", n)
			}
			made = 0
			put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{
				JobID: "runs",
				Eval:  &structs.Evaluation{ID: structs.NewID()},
			})
			synctest.Wait()
			for a := range state.AllocsByJob(w.Store.Read(), "default", "runs") {
				w.endAlloc(a.ID, "n0")
			}
			if n := w.checkIdle("after"); n != waiting-2 {
				t.Errorf("%d evaluations wait, want %d: two fit", n, waiting-2)
			}
		})
		return made
	}
	few, many := plans(10), plans(300)
	t.Logf("%d plans with 10 waiting jobs, %d with 300", few, many)
	if many > few+2 || few > 10 {
		t.Errorf("%d plans with 10 waiting jobs, %d with 300", few, many)
	}
}

// TestSchedule_PlansAFleetThatRegistersTogether: the number of plans of a system job does not grow with the
// nodes that register while one is made.
func TestSchedule_PlansAFleetThatRegistersTogether(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		const fleet = 500
		made := 0
		turn := make(chan struct{})
		stop := w.schedule(func(tx *state.ReadTx, e *structs.Evaluation, now time.Time) (*structs.Plan, error) {
			made++
			<-turn
			return scheduler.Process(tx, e, now)
		})
		w.addJob("csi", 1, 100, func(j *structs.Job) {
			j.Type = structs.JobSystem
		})
		for i := range fleet {
			w.addSizedNode(fmt.Sprintf("n%03d", i), 3, nil)
		}
		close(turn)
		defer stop()
		w.checkIdle("after")
		if n := len(w.runningAllocs()); n != fleet {
			t.Errorf("job runs on %d of %d nodes", n, fleet)
		}
		t.Logf("%d nodes, %d plans", fleet, made)
		if made > 80 {
			t.Errorf("%d nodes, %d plans", fleet, made)
		}
	})
}

// TestSchedule_CapacityElsewhereUnblocksNoSystemJob: an evaluation that found no capacity on one node is not
// planned again when other nodes have some. It is when that node has some.
func TestSchedule_CapacityElsewhereUnblocksNoSystemJob(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		made := map[string]int{}
		stop := w.schedule(func(tx *state.ReadTx, e *structs.Evaluation, now time.Time) (*structs.Plan, error) {
			made[e.JobID]++
			return scheduler.Process(tx, e, now)
		})
		defer stop()
		pinned := func(node string) func(*structs.Job) {
			return func(j *structs.Job) {
				j.Constraints = []*structs.Constraint{{
					LTarget: "${node.unique.id}",
					RTarget: node,
					Operand: "=",
				}}
			}
		}
		for i := range 10 {
			w.addSizedNode(fmt.Sprint("n", i), 3, nil)
		}
		w.addJob("full", 1, 300, pinned("n0"))
		for i := range 3 {
			w.addJob(fmt.Sprint("other", i), 1, 100, pinned(fmt.Sprint("n", 5+i)))
		}
		synctest.Wait()
		w.addJob("csi", 1, 100, func(j *structs.Job) {
			j.Type = structs.JobSystem
		})
		on := func() (nodes int) {
			for _, a := range w.runningAllocs() {
				if a.JobID == "csi" {
					nodes++
				}
			}
			return nodes
		}
		if waiting := w.checkIdle("before"); waiting != 1 || on() != 9 {
			t.Fatalf("%d evaluations wait, the job runs on %d nodes", waiting, on())
		}
		clear(made)
		end := func(job string) {
			put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{
				JobID: job,
				Eval:  &structs.Evaluation{ID: structs.NewID()},
			})
			synctest.Wait()
			for a := range state.AllocsByJob(w.Store.Read(), "default", job) {
				w.endAlloc(a.ID, a.NodeID)
			}
			w.checkIdle(job + " has ended")
		}
		for i := range 3 {
			end(fmt.Sprint("other", i))
		}
		if made["csi"] != 0 {
			t.Errorf("%d plans for freed capacity on other nodes", made["csi"])
		}
		end("full")
		if on() != 10 {
			t.Errorf("job runs on %d nodes", on())
		}
	})
}
