package state_test

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/test/kit"
)

// costOf counts the heap allocations of one step. The store has n nodes with a plugin, with claims of a
// volume that all share and of one that they wait for.
func costOf(t *testing.T, n int, step func(w *uncheckedStore, round int)) float64 {
	w := &uncheckedStore{s: state.New()}
	b := w.s.Begin()
	fill := func(fn func(*state.WriteTx)) {
		w.index++
		_ = b.Apply(w.index, func(tx *state.WriteTx) error { fn(tx); return nil })
	}
	fill(func(tx *state.WriteTx) {
		kit.Must(t, state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("j", structs.JobService)}))
		kit.Must(t, csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{
			aVolume("v", "p"),
			aVolume("w", "p"),
		}}))
	})
	for i := range n {
		fill(func(tx *state.WriteTx) {
			id := fmt.Sprint(i)
			kit.Must(t, state.NodeRegister(tx, &structs.NodeRegisterRequest{
				Node: aNode(id),
				CSI:  []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, true)},
			}))
			schema.Allocs.Put(tx, &structs.Allocation{
				ID:        "a" + id,
				Namespace: "default",
				JobID:     "j",
				NodeID:    id,
				Resources: &structs.Resources{},
			})
			kit.Must(t,
				csi.VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{
					aClaim("v", "a"+id, wr, mnmw),
					aClaim("w", "a"+id, wr, mnsw),
				}}))
		})
	}
	b.Commit()
	round := 0
	return testing.AllocsPerRun(20, func() { round++; step(w, round) })
}

// uncheckedStore applies entries and does not check the invariants, because a check costs more than an entry.
type uncheckedStore struct {
	s     *state.Store
	index uint64
}

func (w *uncheckedStore) do(fn func(*state.WriteTx)) {
	w.index++
	_ = w.s.Write(w.index, func(tx *state.WriteTx) error { fn(tx); return nil })
}

// TestCost_DoesNotGrowWithTheFleet compares a small cluster with one of twenty-five times its size. Trees
// become a little deeper, and no step scans a table.
func TestCost_DoesNotGrowWithTheFleet(t *testing.T) {
	for name, step := range map[string]func(*uncheckedStore, int){
		"a fingerprint flips": func(w *uncheckedStore, round int) {
			w.do(func(tx *state.WriteTx) {
				kit.Must(t, state.NodeUpdateCSI(tx, &structs.NodeUpdateCSIRequest{
					NodeID:  "7",
					Upserts: []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, round%2 == 0)},
				}))
			})
		},
		"a shared volume is released and claimed": func(w *uncheckedStore, _ int) {
			w.do(func(tx *state.WriteTx) {
				kit.Must(t,
					state.VolumeUnpublish(tx,
						&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a7"}}}))
				kit.Must(t,
					csi.VolumeClaim(tx,
						&structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{aClaim("v", "a7", wr, mnmw)}}))
			})
		},
		"the only writer passes the volume on to the next of a long queue": func(w *uncheckedStore, round int) {
			w.do(func(tx *state.WriteTx) {
				kit.Must(t,
					state.VolumeUnpublish(tx,
						&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{
							VolumeID: "w",
							AllocID:  fmt.Sprint("a", round-1),
						}}}))
			})
		},
		"an allocation ends": func(w *uncheckedStore, round int) {
			w.do(func(tx *state.WriteTx) {
				kit.Must(t,
					state.AllocsClientUpdate(tx,
						&structs.AllocsClientUpdateRequest{Allocs: []*structs.AllocClientUpdate{{
							ID:           fmt.Sprint("a", round),
							ClientStatus: structs.AllocFailed,
						}}}))
			})
		},
		"a plan asks whether a claim is possible": func(w *uncheckedStore, _ int) {
			csi.Claimable(w.s.Read(), aClaim("w", "new", wr, mnsw), nil)
		},
	} {
		few, many := costOf(t, 40, step), costOf(t, 1000, step)
		t.Logf("%s: %.0f allocations with 40 nodes, %.0f with 1000", name, few, many)
		if many > 2*few+50 {
			t.Errorf("%s: %.0f allocations with 40 nodes, %.0f with 1000", name, few, many)
		}
	}
}
