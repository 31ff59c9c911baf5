package state_test

import (
	"testing"

	"berth/bench/shape"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// benchFill is the content of a store at the start of a measurement.
type benchFill struct {
	nodes, volumes, claimsEach int
	shared                     int // claims of the shared volume; -1: there is no shared volume
	allocs                     int
	pluginAllocs               bool // one allocation for each node's half of the plugin
	plugins                    []string
}

// benchStore is a filled store and the index of its last entry.
type benchStore struct {
	tb    testing.TB
	s     *state.Store
	index uint64
}

func (f benchFill) store(tb testing.TB) *benchStore {
	b := &benchStore{
		tb:    tb,
		s:     state.New(),
		index: 10,
	}
	if f.plugins == nil {
		f.plugins = []string{shape.Plugin}
	}
	b.many(f.nodes,
		func(tx *state.WriteTx, i int) error {
			return state.NodeRegister(tx, shape.Register(i, 0, f.plugins...))
		})
	b.many(1, func(tx *state.WriteTx, _ int) error {
		return state.JobRegister(tx, &structs.JobRegisterRequest{Job: shape.Job(f.allocs)})
	})
	b.many(f.allocs, func(tx *state.WriteTx, i int) error {
		schema.Allocs.Put(tx, shape.Alloc(i, f.nodes))
		return nil
	})
	if f.pluginAllocs {
		b.many(f.nodes, func(tx *state.WriteTx, i int) error {
			a := shape.Alloc(i, f.nodes)
			a.ID, a.CSIPlugins = shape.UUID("plugalloc", i), []string{shape.Plugin}
			schema.Allocs.Put(tx, a)
			return nil
		})
	}
	b.many(f.volumes, func(tx *state.WriteTx, i int) error {
		return b.putVolume(tx, shape.VolumeID(i), i)
	})
	b.many(f.volumes*f.claimsEach, func(tx *state.WriteTx, i int) error {
		return csi.VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{
			shape.Claim(shape.VolumeID(i/f.claimsEach), i%max(1, f.allocs), structs.ClaimRead)}})
	})
	if f.shared >= 0 {
		b.many(1, func(tx *state.WriteTx, _ int) error {
			return b.putVolume(tx, shape.SharedVolume, 1<<20)
		})
		b.many(f.shared, func(tx *state.WriteTx, i int) error {
			return csi.VolumeClaim(tx,
				&structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{shape.Claim(shape.SharedVolume, i,
					structs.ClaimRead)}})
		})
	}
	return b
}

func (b *benchStore) putVolume(tx *state.WriteTx, id string, i int) error {
	return csi.VolumePut(tx,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{shape.Volume(id, i)}})
}

// many applies n entries in large batches.
func (b *benchStore) many(n int, fn func(tx *state.WriteTx, i int) error) {
	b.tb.Helper()
	for i := 0; i < n; {
		batch := b.s.Begin()
		for end := min(n, i+512); i < end; i++ {
			b.index++
			err := batch.Apply(b.index, func(tx *state.WriteTx) error { return fn(tx, i) })
			if err != nil {
				b.tb.Fatal(err)
			}
		}
		batch.Commit()
	}
}

// do applies one entry in its own transaction, as the peer applies each of its entries.
func (b *benchStore) do(fn func(tx *state.WriteTx) error) {
	b.index++
	err := b.s.Write(b.index, fn)
	if err != nil {
		b.tb.Helper()
		b.tb.Fatal(err)
	}
}
