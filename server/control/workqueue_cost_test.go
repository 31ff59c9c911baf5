package control

import (
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// counted counts the rows that a runner reads.
func counted(r workqueue.Runner) (workqueue.Runner, *atomic.Int64) {
	looks := &atomic.Int64{}
	read, all := r.Read, r.All
	r.Read = func(tx *state.ReadTx, k workqueue.Key) workqueue.Step {
		looks.Add(1)
		return read(tx, k)
	}
	r.All = func(tx *state.ReadTx) iter.Seq[workqueue.Key] {
		return func(yield func(workqueue.Key) bool) {
			for k := range all(tx) {
				looks.Add(1)
				if !yield(k) {
					return
				}
			}
		}
	}
	return r, looks
}

// addMany places n allocations on the nodes in turn. Each claims its own volume, the one of its number.
func (w *testEnv) addMany(n int, nodes ...string) (allocs []string) {
	w.t.Helper()
	job := &structs.Job{ID: "many", TaskGroups: []*structs.TaskGroup{{Name: "g", Count: n}}}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	plan := &structs.Plan{
		JobModifyIndex: state.Job(w.Store.Read(), "default", job.ID).JobModifyIndex,
		Eval: &structs.Evaluation{
			ID:     "e-many",
			JobID:  job.ID,
			Status: structs.EvalComplete,
		},
	}
	volumes, claims := &structs.CSIVolumeRegisterRequest{}, &structs.CSIVolumeClaimRequest{}
	for i := range n {
		v, a := fmt.Sprintf("v%06d", i), fmt.Sprintf("a%06d", i)
		allocs = append(allocs, a)
		volumes.Volumes = append(volumes.Volumes, aVolume(v, structs.VolumeReady))
		plan.Place = append(plan.Place, &structs.Allocation{
			ID:        a,
			JobID:     job.ID,
			TaskGroup: "g",
			NodeID:    nodes[i%len(nodes)],
		})
		claims.Claims = append(claims.Claims, &structs.CSIClaim{
			VolumeID:       v,
			AllocID:        a,
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSIMultiNodeMultipleWriter,
			AttachmentMode: structs.CSIFileSystem,
		})
	}
	put(w, fsm.VolumePut, volumes)
	put(w, fsm.PlanApply, plan)
	put(w, fsm.VolumeClaim, claims)
	return allocs
}

// endMany ends allocations.
func (w *testEnv) endMany(allocs []string) {
	w.t.Helper()
	update := &structs.AllocsClientUpdateRequest{WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()}}
	for _, a := range allocs {
		update.Allocs = append(update.Allocs, &structs.AllocClientUpdate{
			ID:           a,
			ClientStatus: structs.AllocComplete,
		})
	}
	put(w, fsm.AllocsClientUpdate, update)
}

// addCreating adds many volumes of a plugin that are to be created.
func (w *testEnv) addCreating(n int, plugin string) {
	w.t.Helper()
	volumes := &structs.CSIVolumeRegisterRequest{}
	for i := range n {
		v := aVolume(fmt.Sprintf("%s-%06d", plugin, i), structs.VolumeCreating)
		v.PluginID = plugin
		volumes.Volumes = append(volumes.Volumes, v)
	}
	put(w, fsm.VolumePut, volumes)
}

// Each ended call lets the next one begin at once. Neither reads more rows with more waiting rows.
func TestControllers_CallCostsTheSameInAnyQueue(t *testing.T) {
	const calls = 400
	cost := map[int]float64{}
	for _, n := range []int{500, 5000} {
		virtual(t, func(t *testing.T, w *testEnv) {
			w.addNode("n1", true)
			w.addCreating(n, "pl")
			w.setAnswer(func(nodeCall) (any, error) {
				time.Sleep(time.Millisecond)
				return nil, unavailable()
			})
			r, looks := counted(controllerLoop{Deps: w.Deps}.runner())
			stop := start(r.Run)
			defer stop()
			synctest.Wait()
			began := looks.Load()
			if began > int64(3*n) {
				t.Errorf("%d rows are read to begin with %d", began, n)
			}
			parallel := w.Config.CallsPerPlugin
			after(calls / time.Duration(parallel) * time.Millisecond)
			if made := len(w.called(createMethod)); made != calls+parallel {
				t.Errorf("%d calls in the time of %d, with %d waiting rows", made, calls+parallel, n)
			}
			cost[n] = float64(looks.Load()-began) / calls
		})
	}
	t.Logf("rows read for each call, by the number of waiting rows: %v", cost)
	if cost[5000] > 1.5*cost[500]+1 || cost[5000] > 10 {
		t.Errorf("rows read for each call, by the number of waiting rows: %v", cost)
	}
}

// While many keys wait for a controller or for a down node, a change of another row costs at most a read of
// that row.
func TestLoops_ReadNoBlockedRows(t *testing.T) {
	for _, n := range []int{20, 500} {
		virtual(t, func(t *testing.T, w *testEnv) {
			w.addNode("n1", true)
			w.addNode("down", false)
			allocs := w.addMany(n, "down")
			stopAttaching := w.runLoop("controllers")
			synctest.Wait()
			stopAttaching()
			put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"down"}, Status: structs.NodeDown})
			w.endMany(allocs)
			w.addCreating(n, "absent")

			controllers, calls := counted(controllerLoop{Deps: w.Deps}.runner())
			reaper, reaps := counted(reaperLoop{w.Deps}.runner())
			defer start(controllers.Run)()
			defer start(reaper.Run)()
			after(time.Hour)
			if got := reaps.Load(); got > 10 {
				t.Errorf("reaper reads %d rows at first, want 0: it can act on none", got)
			}
			began := calls.Load()
			reaps.Store(0)
			for i := range 20 {
				id := fmt.Sprint("new", i)
				w.addNode(id, true)
				put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{id}, Status: structs.NodeDown})
				put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{id}, Status: structs.NodeReady})
				synctest.Wait()
			}
			w.addMany(20, "n1") // also attaches twenty volumes
			after(time.Hour)
			if got := calls.Load() - began; got > 20*8 {
				t.Errorf("loop of the controllers reads %d rows", got)
			}
			if got := reaps.Load(); got != 0 {
				t.Errorf("reaper reads %d rows", got)
			}
			put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"down"}, Status: structs.NodeReady})
			after(reapGrace)
			if left := len(slices.Collect(statetest.EndedClaims(w.Store.Read()))); left != 0 {
				t.Errorf("%d claims remain although their node is ready again", left)
			}
			w.check()
		})
	}
}

// addController brings the controller of a plugin to a node.
func (w *testEnv) addController(node, plugin string) {
	w.t.Helper()
	c := &structs.CSIPluginInstance{
		Kind:   structs.CSIKindController,
		NodeID: node,
		CSIInfo: structs.CSIInfo{
			PluginID:       plugin,
			Healthy:        true,
			ControllerInfo: &structs.CSIControllerInfo{SupportsCreateDelete: true},
		},
	}
	put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:  node,
		Upserts: []*structs.CSIPluginInstance{c},
	})
}

// Keys that wait for another controller continue to wait.
func TestControllers_CallForAllThatWaitForAController(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", false)
		w.addCreating(100, "late")
		w.addCreating(100, "never")
		w.setAnswer(func(c nodeCall) (any, error) {
			return created(c.req.(*nodecalls.ClientCSICreateRequest).Name),
				nil
		})
		r, looks := counted(controllerLoop{Deps: w.Deps}.runner())
		defer start(r.Run)()
		after(time.Hour)
		began := looks.Load()
		w.addController("n1", "late")
		synctest.Wait()
		if n := len(w.called(createMethod)); n != 100 {
			t.Errorf("%d calls, want 100", n)
		}
		if got := looks.Load() - began; got > 600 {
			t.Errorf("%d rows are read", got)
		}
		w.check()
	})
}
