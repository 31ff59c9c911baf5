package fsm

import (
	"bytes"
	"io"
	"runtime/debug"
	"sync"
	"testing"

	"berth/state"
	"berth/structs"
)

// TestRestore_KeepsGOGC runs concurrent restores, of which half fail.
func TestRestore_KeepsGOGC(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	from := New(state.New())
	for range 20 {
		node := &structs.Node{ID: structs.NewID()}
		err := from.store.Write(from.store.Index()+1, func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: node})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := save(t, from)
	var wg sync.WaitGroup
	for i := range 8 {
		part := whole[:len(whole)*(1+i%2)/2]
		wg.Go(func() {
			_ = New(state.New()).Restore(io.NopCloser(bytes.NewReader(part)))
		})
	}
	wg.Wait()
	if now := debug.SetGCPercent(77); now != 77 {
		t.Errorf("GOGC is %d, want 77", now)
	}
}
