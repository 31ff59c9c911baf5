package state_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/capacity"
)

// TestComputedRows_AreSumsOfTheAllocations puts and deletes random allocations, in entries that fail, too.
// The uses of nodes equal the sums over the allocations after each entry, and after the load of a snapshot
// file. So do the numbers of allocations that evaluations have placed.
func TestComputedRows_AreSumsOfTheAllocations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state.New()
		for index := range rapid.IntRange(1, 40).Draw(t, "entries") {
			fails := rapid.IntRange(0, 4).Draw(t, "fails") == 0
			err := s.Write(uint64(index+1), func(tx *state.WriteTx) error {
				for range rapid.IntRange(1, 4).Draw(t, "changes") {
					changeAnAlloc(t, tx)
				}
				if fails {
					return fmt.Errorf("the entry fails")
				}
				return nil
			})
			if fails != (err != nil) {
				t.Fatal(err)
			}
			checkComputed(t, s)
		}
		var file bytes.Buffer
		if err := s.Save(&file); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(file.String(), schema.EvalAllocs.Name()) {
			t.Fatal("the snapshot file has a computed table")
		}
		loaded := state.New()
		if err := loaded.Load(&file); err != nil {
			t.Fatal(err)
		}
		checkComputed(t, loaded)
		_ = loaded.Write(100, func(tx *state.WriteTx) error { changeAnAlloc(t, tx); return nil })
		checkComputed(t, loaded)
	})
}

// changeAnAlloc puts or deletes one of a few allocations.
func changeAnAlloc(t *rapid.T, tx *state.WriteTx) {
	id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "alloc")
	old := state.Alloc(tx, id)
	if old != nil && rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
		schema.Allocs.Delete(tx, old)
		return
	}
	amount := rapid.SampledFrom([]int{0, 1, 100, 1 << 40, 1<<63 - 1, -7})
	a := &structs.Allocation{
		ID:     id,
		NodeID: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"),
		EvalID: rapid.SampledFrom([]string{"", "e1", "e2"}).Draw(t, "eval"),
		JobID:  rapid.SampledFrom([]string{"j1", "j2"}).Draw(t, "job"),
		DesiredStatus: rapid.SampledFrom([]string{
			structs.AllocDesiredRun, structs.AllocDesiredStop,
		}).Draw(t, "desired"),
		ClientStatus: rapid.SampledFrom([]string{
			structs.AllocRunning, structs.AllocRunning, structs.AllocComplete,
		}).Draw(t, "status"),
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0: // its row is of a version without resources
	case 1:
		a.CSIVolumes = []structs.CSIVolumeUse{{VolumeID: "v"}}
		fallthrough
	default:
		a.Resources = &structs.Resources{
			CPU:      amount.Draw(t, "cpu"),
			MemoryMB: amount.Draw(t, "memory"),
			DiskMB:   amount.Draw(t, "disk"),
		}
	}
	schema.Allocs.Put(tx, a)
}

func checkComputed(t *rapid.T, s *state.Store) {
	c := schema.NewReport(s.Read())
	state.CheckNodeUses(c)
	state.CheckEvalAllocs(c)
	namespace.CheckQuotaUses(c)
	if faults := c.Faults(); len(faults) > 0 {
		t.Fatal(faults)
	}
	for _, node := range []string{"n1", "n2"} {
		use := state.UseOfNode(c, node)
		if !use.Suffices() {
			continue
		}
		n := &structs.Node{ID: node}
		each := capacity.NewNodeCapacity(n)
		for a := range state.HoldersByNode(c, node) {
			each.Hold(a)
		}
		sums := capacity.NewNodeCapacity(n)
		sums.HoldAll(use)
		if got, want := fmt.Sprintf("%+v", sums), fmt.Sprintf("%+v", each); got != want {
			t.Fatalf("the capacity of node %s is by sums %s, by its allocations %s", node, got, want)
		}
	}
}
