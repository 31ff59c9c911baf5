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

// release is an entry that releases claims, with a store in which it can be applied and aborted many times.
type release struct {
	store *state.Store
	index uint64
	keys  []structs.CSIClaimKey
}

// newRelease fills a store with n claims in a mode, of the volumes and on the nodes with the given numbers.
func newRelease(t *testing.T, n int, mode structs.CSIAccessMode, volume, node func(i int) int) *release {
	r := &release{store: state.New(), index: 1}
	b := r.store.Begin()
	defer b.Abort()
	apply := func(fn func(tx *state.WriteTx) error) {
		r.index++
		kit.Must(t, b.Apply(r.index, fn))
	}
	apply(func(tx *state.WriteTx) error {
		return state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("j", structs.JobService)})
	})
	nodes, vols := map[string]bool{}, map[string]bool{}
	for i := range n {
		v := fmt.Sprint("v", volume(i))
		at := fmt.Sprint("n", node(i))
		alloc := fmt.Sprint("a", i)
		if !nodes[at] {
			nodes[at] = true
			both := attachingHalves("p")
			both[0].NodeInfo.MaxVolumes = structs.ManyVolumes + 1
			apply(func(tx *state.WriteTx) error {
				return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: aNode(at), CSI: both})
			})
		}
		if !vols[v] {
			vols[v] = true
			apply(func(tx *state.WriteTx) error {
				return csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{
					Volumes: []*structs.CSIVolume{aVolume(v, "p")},
				})
			})
		}
		apply(func(tx *state.WriteTx) error {
			schema.Allocs.Put(tx, &structs.Allocation{
				ID:        alloc,
				Namespace: "default",
				JobID:     "j",
				NodeID:    at,
				Resources: &structs.Resources{},
			})
			return csi.VolumeClaim(tx,
				&structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{aClaim(v, alloc, wr, mode)}})
		})
		r.keys = append(r.keys, structs.CSIClaimKey{
			Namespace: "default",
			VolumeID:  v,
			AllocID:   alloc,
		})
	}
	apply(func(tx *state.WriteTx) error {
		schema.Evals.Put(tx, &structs.Evaluation{
			ID:        "e",
			Namespace: "default",
			JobID:     "j",
			Status:    structs.EvalBlocked,
			BlockedOn: []string{structs.WakeVolume("default", "v0"), structs.WakePlugin("p")},
		})
		return nil
	})
	b.Commit()
	return r
}

// cost applies the entry, aborts it and returns the number of heap allocations per claim.
func (r *release) cost(t *testing.T) float64 {
	memory := testing.AllocsPerRun(2, func() {
		b := r.store.Begin()
		defer b.Abort()
		kit.Must(t, b.Apply(r.index+1, func(tx *state.WriteTx) error {
			err := state.VolumeUnpublish(tx, &structs.CSIVolumeUnpublishRequest{Claims: r.keys})
			e := state.Eval(tx.ReadTx, "e")
			want := "woken by " + structs.WakeVolume("default", "v0")
			if e.Status != structs.EvalPending || e.StatusDescription != want {
				t.Errorf("the blocked evaluation is %s, %q", e.Status, e.StatusDescription)
			}
			return err
		}))
	})
	return memory / float64(len(r.keys))
}

// TestVolumeUnpublish_CostsTheSamePerClaim releases claims of one volume, on one node, and out of one queue.
func TestVolumeUnpublish_CostsTheSamePerClaim(t *testing.T) {
	same, each := func(int) int { return 0 }, func(i int) int { return i }
	few := func(i int) int { return i / 10 }
	for name, c := range map[string]struct {
		mode         structs.CSIAccessMode
		volume, node func(int) int
	}{
		"one volume, a node each":              {mnmw, same, each},
		"one volume, few nodes":                {mnmw, same, few},
		"one node, a volume each":              {mnmw, each, same},
		"one node, few volumes":                {mnmw, few, same},
		"one volume in a queue, a node each":   {mnsw, same, each},
		"one volume in a queue, all on a node": {snw, same, same},
	} {
		few, many := newRelease(t, 100, c.mode, c.volume, c.node), newRelease(t, 1000, c.mode, c.volume, c.node)
		fewCost, manyCost := few.cost(t), many.cost(t)
		t.Logf("%s: %.1f and %.1f allocations per claim", name, fewCost, manyCost)
		if manyCost > 3*fewCost/2+10 {
			t.Errorf("%s: each of 100 claims costs %.1f allocations, each of 1,000 costs %.1f", name,
				fewCost, manyCost)
		}
	}
}
