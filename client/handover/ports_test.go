package handover

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/hooks"
	"berth/structs"
)

func TestPorts_IsNilWithoutPorts(t *testing.T) {
	if Ports(&hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a"}}, nil, nil) != nil {
		t.Error("an allocation without ports has a hook for them")
	}
}

func TestPorts_WaitsForTheEndOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holders := []string{"b", "b", "c"}
		holder := func(*structs.Allocation) string {
			if len(holders) == 0 {
				return ""
			}
			first := holders[0]
			holders = holders[1:]
			return first
		}
		var said []string
		progress := func(id, reason string) { said = append(said, id+": "+reason) }
		env := &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a", Ports: []structs.AllocatedPort{{Label: "x"}}}}
		h := Ports(env, holder, progress)
		begin := time.Now()
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited != 3*hooks.AwaitInterval {
			t.Errorf("it waited %s", waited)
		}
		want := []string{"a: waits for allocation b, which still holds one of its ports", "a: waits for allocation c, which still holds one of its ports", "a: "}
		if !slices.Equal(said, want) {
			t.Errorf("it said %q, want %q", said, want)
		}

		holders = slices.Repeat([]string{"b"}, 100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Up(ctx, env); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := h.Down(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
