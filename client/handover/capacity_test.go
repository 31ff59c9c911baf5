package handover

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/hooks"
	"berth/structs"
)

func TestCapacity_WaitsForTheCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		holder := func(*structs.Allocation) string {
			looks++
			if looks > 2 {
				return ""
			}
			return "b"
		}
		var said []string
		h := Capacity(holder, func(id, reason string) { said = append(said, id+": "+reason) })
		begin := time.Now()
		env := &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a"}}
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		want := []string{"a: waits for allocation b, which still holds its CPU and memory", "a: "}
		if waited := time.Since(begin); waited != 2*hooks.AwaitInterval || !slices.Equal(said, want) {
			t.Errorf("it waited %s and said %q", waited, said)
		}

		looks = 0
		env.Running = func() bool { return true }
		if err := h.Up(t.Context(), env); err != nil || looks > 0 {
			t.Errorf("a running allocation asks for its capacity: %v", err)
		}
		if err := h.Down(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
