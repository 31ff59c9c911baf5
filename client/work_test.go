package client

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

func TestCollectEnded_KeepsGCMaxAllocs(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.GCMaxAllocs = 2 }
		r.start(false)
		defer r.stop()
		for i := range 4 {
			a := testAlloc(fmt.Sprintf("a%d", i))
			a.Job.Type = structs.JobBatch
			r.servers.place(a)
			r.pass(time.Second)
			r.machine.Exit(a.ID+"/web", driver.ExitResult{})
			r.pass(time.Second)
		}
		wantLeft := func(names ...string) {
			t.Helper()
			left, err := os.ReadDir(filepath.Join(r.dir, "alloc"))
			var got []string
			for _, dir := range left {
				got = append(got, dir.Name())
			}
			if err != nil || !slices.Equal(got, names) {
				t.Errorf("left %q, %v, want %q", got, err, names)
			}
		}
		wantLeft("a2", "a3")
		r.servers.place(testAlloc("b"))
		r.pass(time.Second)
		if err := r.client.CollectAlloc(t.Context(), "a2"); err != nil {
			t.Error(err)
		}
		if err := r.client.CollectAlloc(t.Context(), "b"); !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("an allocation that runs: %v", err)
		}
		if err := r.client.CollectAlloc(t.Context(), "a0"); !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("an allocation that is gone: %v", err)
		}
		r.pass(time.Second)
		wantLeft("a3", "b")
		if n := r.client.CollectEnded(t.Context()); n != 1 {
			t.Errorf("removed %d allocations, want 1", n)
		}
		r.pass(time.Second)
		wantLeft("b")
		if got := r.machine.Running(); !slices.Equal(got, []string{"b/web"}) {
			t.Errorf("running %v: a collected allocation has started again", got)
		}
	})
}

// kept returns the number of records of each allocation that the agent has.
func (r *fixture) kept() map[string]int {
	c := r.client
	capacity := c.work.holds.Len()
	c.work.allocs.mu.Lock()
	defer c.work.allocs.mu.Unlock()
	c.work.updates.mu.Lock()
	defer c.work.updates.mu.Unlock()
	numbers := map[string]int{
		"runners":  len(c.work.allocs.runners),
		"ignored":  len(c.work.allocs.ignored),
		"pending":  len(c.work.updates.pending),
		"acked":    len(c.work.updates.ackedEnds),
		"capacity": capacity,
	}
	maps.DeleteFunc(numbers, func(_ string, n int) bool { return n == 0 })
	return numbers
}

func TestClient_KeepsNothingOfAllocationsThatTheServersDeleted(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.GCMaxAllocs = 2 }
		r.start(false)
		defer r.stop()
		bad := testAlloc("bad")
		bad.TaskGroup = "none"
		r.servers.place(bad)
		all := []string{bad.ID}
		for i := range 4 {
			a := testAlloc(fmt.Sprintf("a%d", i))
			a.Job.Type = structs.JobBatch
			all = append(all, a.ID)
			r.servers.place(a)
			r.pass(time.Second)
			r.machine.Exit(a.ID+"/web", driver.ExitResult{})
			r.pass(time.Second)
		}
		r.client.work.allocs.resend() // as after a restore of the servers
		r.pass(time.Second)
		want := map[string]int{"runners": 2, "acked": 2, "ignored": 3}
		if got := r.kept(); !maps.Equal(got, want) {
			t.Errorf("%v before the servers delete the allocations, want %v", got, want)
		}
		r.servers.remove(all...)
		r.pass(time.Second)
		if got := r.kept(); len(got) != 0 {
			t.Errorf("%v are left", got)
		}
	})
}
