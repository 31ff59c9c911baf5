package drainer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
)

// randomFleet is a fleet with nodes that drain as specs say.
type randomFleet struct {
	*fleet
	counts map[string]int // by service
	specs  map[string]structs.DrainSpec
	users  map[string]*structs.Allocation // by their volumes
	keeps  map[string]bool                // nodes that do not let go of their volumes
	slow   time.Time                      // until then no node lets go, and some allocations do not end
}

func newRandomFleet(t *rapid.T) *randomFleet {
	nodes := rapid.IntRange(3, 6).Draw(t, "nodes")
	f := &randomFleet{
		fleet:  newFleet(t, nodes),
		counts: map[string]int{},
		specs:  map[string]structs.DrainSpec{},
		users:  map[string]*structs.Allocation{},
		keeps:  map[string]bool{},
	}
	f.register("csi", structs.JobSystem, 1, plugin)
	f.register("logs", structs.JobSystem, 1)
	for _, id := range []string{"a", "b", "c"} {
		f.counts[id] = rapid.IntRange(1, 8).Draw(t, "count")
		f.register(id, structs.JobService, f.counts[id])
		for _, a := range f.Allocs(id) {
			if rapid.Bool().Draw(t, "uses a volume") {
				f.use(fmt.Sprint("vol-", len(f.users)), a)
			}
			f.Stuck[a.ID] = rapid.IntRange(0, 9).Draw(t, "ends late") == 0
		}
	}
	for i := range rapid.IntRange(1, nodes-1).Draw(t, "drained") {
		node := fmt.Sprint("n", i)
		spec := structs.DrainSpec{
			Deadline:         rapid.SampledFrom([]time.Duration{0, 0, 20 * time.Second, -1}).Draw(t, "deadline"),
			IgnoreSystemJobs: rapid.Bool().Draw(t, "ignore system jobs"),
			Force:            rapid.Bool().Draw(t, "force"),
		}
		f.specs[node] = spec
		forces := spec.Deadline < 0 || spec.Deadline > 0 && spec.Force
		f.keeps[node] = forces && rapid.Bool().Draw(t, "keeps volumes")
		f.drain(node, spec)
	}
	f.slow = f.Clock.Add(rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "slow"))
	return f
}

// use lets an allocation claim a volume of its own.
func (f *randomFleet) use(volume string, a *structs.Allocation) {
	f.T.Helper()
	f.Volume(volume)
	f.Claim(a, volume, structs.CSIMultiNodeMultipleWriter)
	f.users[volume] = a
}

// release lets the nodes let go of the volumes of allocations that have ended.
func (f *randomFleet) release() {
	f.T.Helper()
	if f.Clock.Before(f.slow) {
		return
	}
	clear(f.Stuck)
	for volume, a := range f.users {
		if !f.keeps[a.NodeID] && state.Alloc(f.Store.Read(), a.ID).ClientTerminal() {
			f.Release(a, volume)
			delete(f.users, volume)
		}
	}
}

// checkPace checks that no service misses more than one, unless a drain has a deadline.
func (f *randomFleet) checkPace() {
	f.T.Helper()
	for _, spec := range f.specs {
		if spec.Deadline != 0 {
			return
		}
	}
	for id, count := range f.counts {
		for a := range state.LiveAllocsByJob(f.Store.Read(), "default", id) {
			if !a.Migrate && a.ClientStatus == structs.AllocRunning {
				count--
			}
		}
		f.check("job "+id+" misses more than one", count <= 1)
	}
}

// checkNode checks a node that drains: each allocation has a reason, and the plugin leaves last.
func (f *randomFleet) checkNode(node string, spec structs.DrainSpec) {
	f.T.Helper()
	tx := f.Store.Read()
	left := f.on(node)
	held, _ := state.HeldVolumes(tx, node)
	if spec.IgnoreSystemJobs {
		f.check("a system job has left "+node, slices.Contains(left, "csi") && slices.Contains(left, "logs"))
		left = slices.DeleteFunc(left, func(job string) bool { return job == "csi" || job == "logs" })
	}
	waits := Waits(tx, state.Node(tx, node), f.Clock)
	waits = slices.DeleteFunc(waits, func(w structs.DrainWait) bool { // for the volumes of one that has ended
		return state.Alloc(tx, w.AllocID).ClientTerminal()
	})
	f.check("the drain of "+node+" has ended before its volumes are let go of",
		f.draining(node) || held == 0 || spec.Deadline != 0)
	f.check("an allocation on "+node+" has no reason", !f.draining(node) || len(waits) == len(left))
	f.check("allocations are left on "+node, f.draining(node) || len(left) == 0)
	if spec.IgnoreSystemJobs || slices.Contains(left, "csi") {
		return
	}
	f.check("the plugin left "+node+" before the others", len(left) == 0)
	f.check("the plugin left "+node+" before the volumes", held == 0 || f.forced[node] != "")
	f.check("a plugin stopped by force", f.forced[node] == "" || spec.Force || spec.Deadline < 0)
}

// TestDrain_RandomFleetsBecomeEmpty drains nodes of random fleets, several at once, with nodes that the
// workloads fit on left over. Each drain ends, no group misses more than one, and each allocation that is
// still there has a reason. A plugin leaves after all that may use it.
func TestDrain_RandomFleetsBecomeEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newRandomFleet(t)
		f.until("the drains end", func() bool {
			f.release()
			f.checkPace()
			ended := true
			for node, spec := range f.specs {
				f.checkNode(node, spec)
				ended = ended && !f.draining(node)
			}
			return ended
		})
	})
}
