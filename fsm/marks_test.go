package fsm

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"berth/state"
	"berth/structs"
)

// Servers apply entries in batches of any size, and look at their states at the same entries.
func TestMark_IsAtTheSameEntriesForAnyBatches(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	var logs []*raft.Log
	for i := range 40 {
		logs = append(logs, &raft.Log{
			Index:      uint64(i + 1),
			Type:       raft.LogNoop,
			AppendedAt: begin.Add(time.Duration(i) * 90 * time.Second),
		})
	}
	// The next leader has a clock that is two hours behind.
	for _, log := range logs[30:] {
		log.AppendedAt = log.AppendedAt.Add(-2 * time.Hour)
	}

	marked := func(size int) (all []uint64) {
		f := New(state.New()).Mark(10*time.Minute, func(index uint64, _ *state.ReadTx) {
			all = append(all, index)
		})
		for part := range slices.Chunk(logs, size) {
			if got := f.ApplyBatch(part); len(got) != len(part) {
				t.Errorf("%d answers to %d entries", len(got), len(part))
			}
		}
		return all
	}
	want := []uint64{8, 15, 21, 28, 31, 35}
	for _, size := range []int{1, 3, 7, 40} {
		if got := marked(size); !slices.Equal(got, want) {
			t.Errorf("in batches of %d: at the entries %v, want %v", size, got, want)
		}
	}
}

// The state at a mark is that after its entry, and before the next one of the same batch.
func TestMark_HasTheStateOfItsEntry(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	var applied []uint64
	f := New(state.New()).Mark(time.Minute, func(index uint64, tx *state.ReadTx) {
		applied = append(applied, index, tx.Applied())
	})
	var logs []*raft.Log
	for i := range 3 {
		logs = append(logs, &raft.Log{
			Index:      uint64(i + 1),
			Type:       raft.LogCommand,
			Data:       nodeEntry(t, structs.NewID(), "secret"),
			AppendedAt: begin.Add(time.Duration(i) * time.Minute),
		})
	}
	f.ApplyBatch(logs)
	if !slices.Equal(applied, []uint64{2, 2, 3, 3}) {
		t.Errorf("marks and their states are at %v", applied)
	}
}
