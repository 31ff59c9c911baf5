package state_test

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/test/kit"
)

// storeWithBlockedEvals fills a store with a node on which an allocation runs for each round, and n blocked
// evaluations of the given number of shapes.
func storeWithBlockedEvals(t *testing.T, n, shapes int) *uncheckedStore {
	w := &uncheckedStore{s: state.New()}
	b := w.s.Begin()
	w.index++
	kit.Must(t, b.Apply(w.index, func(tx *state.WriteTx) error {
		kit.Must(t, state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: aNode("n")}))
		kit.Must(t, state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("runs", structs.JobService)}))
		for i := range 100 {
			schema.Allocs.Put(tx, &structs.Allocation{
				ID:        fmt.Sprint("a", i),
				Namespace: "default",
				JobID:     "runs",
				NodeID:    "n",
				Resources: &structs.Resources{},
			})
		}
		return nil
	}))
	for i := range n {
		w.index++
		kit.Must(t, b.Apply(w.index, func(tx *state.WriteTx) error {
			state.PutEval(tx, &structs.Evaluation{
				ID:            fmt.Sprint("e", i),
				Namespace:     "default",
				JobID:         fmt.Sprint("j", i),
				Status:        structs.EvalBlocked,
				Shape:         fmt.Sprint("s", i%shapes),
				BlockedOn:     []string{structs.WakeCapacity, structs.WakePlugin("p")},
				SnapshotIndex: w.index - 1,
			})
			return nil
		}))
	}
	b.Commit()
	return w
}

// TestUnblocking_CostsTheSameForAnyNumber compares numbers of blocked evaluations, of one shape and of many.
func TestUnblocking_CostsTheSameForAnyNumber(t *testing.T) {
	for name, step := range map[string]func(w *uncheckedStore, round int){
		"an allocation ends": func(w *uncheckedStore, round int) {
			w.do(func(tx *state.WriteTx) {
				kit.Must(t,
					state.AllocsClientUpdate(tx,
						&structs.AllocsClientUpdateRequest{Allocs: []*structs.AllocClientUpdate{{
							ID:           fmt.Sprint("a", round),
							ClientStatus: structs.AllocComplete,
						}}}))
			})
		},
		"a plugin becomes healthy": func(w *uncheckedStore, round int) {
			w.do(func(tx *state.WriteTx) {
				kit.Must(t, state.NodeUpdateCSI(tx, &structs.NodeUpdateCSIRequest{
					NodeID:  "n",
					Upserts: []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, round%2 == 0)},
				}))
			})
		},
		"more queues are unblocked": func(w *uncheckedStore, _ int) {
			w.do(func(tx *state.WriteTx) { unblock.Key(tx, structs.WakeCapacity) })
			w.do(func(tx *state.WriteTx) {
				kit.Must(t, state.EvalUpdate(tx, &structs.EvalUpdateRequest{Wake: 64}))
			})
		},
	} {
		for _, each := range []bool{false, true} {
			cost := func(n int) float64 {
				shapes := 1
				if each {
					shapes = n
				}
				w, round := storeWithBlockedEvals(t, n, shapes), 0
				return testing.AllocsPerRun(10, func() { round++; step(w, round) })
			}
			few, many := cost(1000), cost(4000)
			t.Logf("%s, each of its own shape %t: %.0f allocations with 1,000 that wait, %.0f with 4,000", name,
				each, few, many)
			if many > 5*few/4+100 {
				t.Errorf("%s, each of its own shape %t: %.0f allocations with 1,000 that wait, %.0f with 4,000", name,
					each, few, many)
			}
		}
	}
}

// pendingOf counts the pending evaluations.
func pendingOf(tx *state.ReadTx) (n int) {
	for range state.ReadyEvals(tx) {
		n++
	}
	return n
}

// TestBlockedEvals_HeadOfAQueueStandsForAll checks that the next evaluation becomes pending only if the head
// found capacity.
func TestBlockedEvals_HeadOfAQueueStandsForAll(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("runs", "r", "n1")
	put := func(id, status string, snapshot uint64) {
		t.Helper()
		do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
			WriteOptions: w.Now(),
			Evals: []*structs.Evaluation{{
				ID:            id,
				JobID:         id,
				Status:        status,
				BlockedOn:     []string{structs.WakeCapacity},
				Shape:         "s",
				SnapshotIndex: snapshot,
			}},
		})
	}
	states := func(want ...string) {
		t.Helper()
		for i, s := range want {
			w.WantEval(fmt.Sprint("e", i), s)
		}
	}
	for i := range 4 {
		put(fmt.Sprint("e", i), structs.EvalBlocked, w.Index)
	}
	const blocked, pending, complete, cancelled = structs.EvalBlocked, structs.EvalPending, structs.EvalComplete,
		structs.EvalCancelled
	w.Client("n1", "runs", structs.AllocComplete)
	states(pending, blocked, blocked, blocked)
	put("e0", complete, w.Index)
	states(complete, pending, blocked, blocked)
	before := w.Index
	put("e1", blocked, w.Index)
	states(complete, blocked, blocked, blocked) // the head found no capacity, and the others would find none
	put("e1", blocked, before-2)                // processed before the capacity was freed
	states(complete, pending, blocked, blocked)
	put("e1", cancelled, 0) // the next one has missed the unblock and shows it
	states(complete, cancelled, pending, blocked)
	put("e2", blocked, w.Index)
	w.Alloc("again", "r", "n1")
	w.Client("n1", "again", structs.AllocComplete)
	states(complete, cancelled, pending, blocked)
}

// TestBlockedEvals_OtherQueuesUnblockInLaterEntries checks that another unblock meanwhile delays no queue for
// ever.
func TestBlockedEvals_OtherQueuesUnblockInLaterEntries(t *testing.T) {
	const queues, most = 50, 7
	for _, again := range []int{0, 1, 3} {
		w := newFixture(t)
		for i := range queues {
			do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
				WriteOptions: w.Now(),
				Evals: []*structs.Evaluation{{
					ID:            fmt.Sprint("e", i),
					JobID:         fmt.Sprint("e", i),
					Priority:      i % 5,
					Status:        structs.EvalBlocked,
					BlockedOn:     []string{structs.WakeCapacity},
					SnapshotIndex: w.Index,
				}},
			})
		}
		w.Node("n0")
		if n := pendingOf(w.Store.Read()); n != unblock.QueuesAtOnce {
			t.Errorf("%d evaluations are pending at once, want %d", n, unblock.QueuesAtOnce)
		}
		for e := range state.ReadyEvals(w.Store.Read()) {
			if e.Priority != 4 {
				t.Errorf("%s of priority %d is pending before those of priority 4", e.ID, e.Priority)
			}
		}
		entries := 0
		for ; unblock.Due(w.Store.Read()) && entries < 1000; entries++ {
			before := pendingOf(w.Store.Read())
			do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: most, WriteOptions: w.Now()})
			if n := pendingOf(w.Store.Read()) - before; n > most {
				t.Fatalf("an entry unblocks %d queues, want at most %d", n, most)
			}
			if again > 0 && entries < 3*queues && entries%again == 0 {
				// The unblocked evaluations find nothing and block again. Then capacity is freed again.
				for e := range state.ReadyEvals(w.Store.Read()) {
					e = e.Copy()
					e.Status, e.SnapshotIndex = structs.EvalBlocked, w.Index
					do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
						WriteOptions: w.Now(),
						Evals:        []*structs.Evaluation{e},
					})
				}
				w.Node(fmt.Sprint("n", entries+1))
			}
		}
		tried := map[string]bool{}
		for e := range state.EvalsByStatus(w.Store.Read(), structs.EvalBlocked) {
			tried[e.ID] = e.ModifyIndex > queues+11
		}
		for e := range state.ReadyEvals(w.Store.Read()) {
			tried[e.ID] = true
		}
		for id, ok := range tried {
			if !ok {
				t.Errorf("%s never became pending", id)
			}
		}
		if len(tried) != queues || entries >= 1000 {
			t.Errorf("%d queues became pending in %d entries, want %d", len(tried), entries, queues)
		}
	}
}

// TestBlockedEvals_MissNoUnblock applies random events and checks the invariants after each.
func TestBlockedEvals_MissNoUnblock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFixture(t)
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			structs.WakeCapacity, structs.WakePlugin("p"),
			structs.WakeVolume("default", "v"),
		}), 1, 3, rapid.ID[string])
		w.Node("n")
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := fmt.Sprint("e", rapid.IntRange(0, 30).Draw(t, "eval"))
			switch rapid.SampledFrom([]string{
				"block", "block", "block", "end", "capacity", "plugin", "volume",
				"quietly", "forget", "on",
			}).Draw(t, "step") {
			case "block":
				do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
					WriteOptions: w.Now(),
					Evals: []*structs.Evaluation{{
						ID:            id,
						JobID:         id,
						Status:        structs.EvalBlocked,
						Priority:      rapid.IntRange(0, 2).Draw(t, "priority"),
						Shape:         rapid.SampledFrom([]string{"", "", "", "s", "t"}).Draw(t, "shape"),
						BlockedOn:     keys.Draw(t, "on"),
						SnapshotIndex: w.Index - uint64(rapid.IntRange(0, 3).Draw(t, "ago")),
					}},
				})
			case "end":
				do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
					WriteOptions: w.Now(),
					Evals: []*structs.Evaluation{{
						ID:     id,
						JobID:  id,
						Status: structs.EvalComplete,
					}},
				})
			case "capacity":
				w.Node(fmt.Sprint("n", w.Index))
			case "plugin":
				w.Update("n", anInstance("p", structs.CSIKindNode, rapid.Bool().Draw(t, "healthy")))
			case "volume":
				v := aVolume("v", "p")
				v.Context = map[string]string{"x": fmt.Sprint(w.Index)}
				_ = try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
					Volumes:      []*structs.CSIVolume{v},
					WriteOptions: w.Now(),
				})
			case "quietly":
				_ = try(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
			case "forget":
				_ = try(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
					ID: "v", WriteOptions: w.Now(),
				})
			case "on":
				do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
					Wake:         rapid.IntRange(1, 9).Draw(t, "most"),
					WriteOptions: w.Now(),
				})
			}
		}
		for n := 0; unblock.Due(w.Store.Read()); n++ {
			do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: 5})
			if n > 1000 {
				t.Fatal("the unblock does not end")
			}
		}
	})
}

// TestUnblocking_ContinuesAfterARestore checks that the state has the progress of an unblock, so that the
// next leader continues there.
func TestUnblocking_ContinuesAfterARestore(t *testing.T) {
	const queues = 40
	w := newFixture(t)
	for i := range queues {
		w.Blocked(fmt.Sprint("j", i), structs.WakeCapacity)
	}
	w.Node("n")
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: 7})
	var saved bytes.Buffer
	kit.Must(t, w.Store.Save(&saved))
	w.Store = state.New()
	kit.Must(t, w.Store.Load(&saved))
	w.Check()
	for n := 0; unblock.Due(w.Store.Read()) && n < queues; n++ {
		do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: 7})
	}
	if n := pendingOf(w.Store.Read()); n != queues {
		t.Errorf("%d of %d evaluations are pending", n, queues)
	}
}
