package state_test

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// storeWithNodesAndEvals returns a store with n nodes, one system job, an allocation of another job, and n
// blocked evaluations.
func storeWithNodesAndEvals(b *testing.B, n int) (s *state.Store, index uint64) {
	s = state.New()
	batch := s.Begin()
	apply := func(fn func(tx *state.WriteTx) error) {
		index++
		if err := batch.Apply(index, fn); err != nil {
			b.Fatal(err)
		}
	}
	apply(func(tx *state.WriteTx) error {
		return state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("csi", structs.JobSystem)})
	})
	apply(func(tx *state.WriteTx) error {
		return state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("runs", structs.JobService)})
	})
	for i := range n {
		apply(func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: aNode(fmt.Sprintf("n%06d", i))})
		})
	}
	apply(func(tx *state.WriteTx) error {
		schema.Allocs.Put(tx, &structs.Allocation{
			ID:        "a",
			Namespace: "default",
			JobID:     "runs",
			NodeID:    "n000000",
			Resources: &structs.Resources{},
		})
		return nil
	})
	for i := range n {
		apply(func(tx *state.WriteTx) error {
			id := fmt.Sprintf("e%06d", i)
			return state.EvalUpdate(tx,
				&structs.EvalUpdateRequest{Evals: []*structs.Evaluation{{
					ID:            id,
					JobID:         id,
					Status:        structs.EvalBlocked,
					BlockedOn:     []string{structs.WakeCapacity},
					SnapshotIndex: index,
				}}})
		})
	}
	batch.Commit()
	return s, index + 1
}

// BenchmarkEnqueueEval measures entries that request evaluations, each in its own batch that is aborted.
func BenchmarkEnqueueEval(b *testing.B) {
	for _, entry := range []struct {
		name string
		fn   func(tx *state.WriteTx) error
	}{
		{"an allocation ends", func(tx *state.WriteTx) error {
			return state.AllocsClientUpdate(tx,
				&structs.AllocsClientUpdateRequest{Allocs: []*structs.AllocClientUpdate{{
					ID:           "a",
					ClientStatus: structs.AllocComplete,
				}}})
		}},
		{"a node registers", func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: aNode("new")})
		}},
	} {
		for _, n := range []int{10, 1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", entry.name, n), func(b *testing.B) {
				s, index := storeWithNodesAndEvals(b, n)
				b.ReportAllocs()
				for b.Loop() {
					batch := s.Begin()
					if err := batch.Apply(index, entry.fn); err != nil {
						b.Fatal(err)
					}
					batch.Abort()
				}
			})
		}
	}
}
