package fsm

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
)

// TestApply_IsDeterministic applies random entries to two servers. One applies them one by one. The other
// applies them in batches and is saved and loaded halfway. Results and snapshots must be equal byte for byte.
// No entry may break an invariant.
func TestApply_IsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := dice{t}
		one, other := New(state.New()), New(state.New())
		var batch []*raft.Log
		var answers []string
		length := rapid.IntRange(1, 60).Draw(t, "length")
		halfway := rapid.IntRange(0, length).Draw(t, "halfway")
		flush := func() {
			for n, a := range other.ApplyBatch(batch) {
				if got := fmt.Sprint(a); got != answers[n] {
					t.Fatalf("entry %d: one server answers %q, the other %q", batch[n].Index, answers[n], got)
				}
			}
			batch, answers = nil, nil
		}
		for n := range length {
			draw := d.entry
			if d.upTo(9) == 0 {
				draw = d.batch
			}
			entry := draw(one.store.Read())
			log := &raft.Log{
				Type:  raft.LogCommand,
				Index: uint64(n + 1),
				Data:  entry,
			}
			batch, answers = append(batch, log), append(answers, fmt.Sprint(one.Apply(log)))
			for _, fault := range state.Check(one.store.Read()) {
				t.Fatalf("after command %d: %s", entry[0], fault)
			}
			if n == halfway {
				flush()
				other = reload(t, other)
			} else if d.flip() {
				flush()
			}
		}
		flush()
		if !bytes.Equal(save(t, one), save(t, other)) {
			t.Fatal("the servers differ")
		}
	})
}

func save(t rapid.TB, f *FSM) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.store.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reload(t rapid.TB, f *FSM) *FSM {
	t.Helper()
	fresh := New(state.New())
	err := fresh.store.Load(bytes.NewReader(save(t, f)))
	if err != nil {
		t.Fatal(err)
	}
	return fresh
}

// TestDraws_FindRows checks that drawn payloads name rows that other commands make. Each noun has its pool.
func TestDraws_FindRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := dice{t}
		req := structs.CSIVolumeRetryRequest{}
		expanded := structs.CSINodeExpandOutcome{}
		d.fill(reflect.ValueOf(&req).Elem(), "")
		d.fill(reflect.ValueOf(&expanded).Elem(), "")
		named := []string{req.ID, expanded.VolumeID, expanded.NodeID, expanded.AllocID}
		for n, pool := range []string{"Volume", "Volume", "Node", "Alloc"} {
			if !slices.Contains(pools[pool], named[n]) {
				t.Fatalf("got %q, want a name of pool %s", named[n], pool)
			}
		}
	})
	for name := range draws {
		if !slices.ContainsFunc(commands, func(c *CommandInfo) bool { return c.Name == name }) {
			t.Errorf("there is no command %s", name)
		}
	}
}

// FuzzEntry checks that no decodable entry makes Apply panic or breaks an invariant.
func FuzzEntry(f *testing.F) {
	for _, c := range commands {
		f.Add(append([]byte{c.ID}, 0x80))
		f.Add(append([]byte{c.ID}, 0xc0))
	}
	f.Fuzz(func(t *testing.T, entry []byte) {
		_, apply, err := decodeEntry(entry)
		if err != nil {
			return
		}
		s := state.New()
		_ = s.Write(1, apply)
		for _, fault := range state.Check(s.Read()) {
			t.Error(fault)
		}
	})
}
