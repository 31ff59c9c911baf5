package scheduler

import (
	"testing"

	"berth/structs"
)

// Two groups exchange their ports, although another job waits for the same ones. The order of the allocations
// on the node, which is random, does not matter.
func TestUpdate_ExchangesBesideAnotherThatWaits(t *testing.T) {
	for range 20 {
		x := newExchange(t, "port")
		x.register(x.version("a", structs.JobService, 1, 3))
		x.register(x.version("b", structs.JobService, 0, 2))
		x.settle()
		x.register(x.version("b", structs.JobService, 3, 1))
		x.settle()
		x.register(x.version("a", structs.JobService, 3, 1))
		x.settle()
		x.checkNewest("a")
		if t.Failed() {
			return
		}
	}
}

// Each of three jobs could wait until the others have exchanged their room. The last one that is evaluated
// does not wait.
func TestUpdate_ExchangesRoomIfEachJobCouldWaitForTheOthers(t *testing.T) {
	sizes := func(x *exchange, id string, cpu, memory, disk int) *structs.Job {
		return x.edited(id, structs.JobService, 1, func(g *structs.TaskGroup, _ int) {
			r := resourcesOf(g)
			r.CPU = cpu
			r.MemoryMB = memory
			g.EphemeralDisk = &structs.EphemeralDisk{SizeMB: disk}
		})
	}
	x := newExchange(t, "room")
	x.register(sizes(x, "rest", 400, 100, 1000))
	x.register(sizes(x, "a", 200, 300, 3000))
	x.register(sizes(x, "b", 200, 300, 3000))
	x.register(sizes(x, "c", 200, 300, 3000))
	x.settle()
	for _, j := range []*structs.Job{
		sizes(x, "a", 300, 200, 2000),
		sizes(x, "b", 100, 400, 2000),
		sizes(x, "c", 100, 200, 4000),
	} {
		x.submit(j, structs.NewID())
	}
	x.settle()
	x.checkNewest("a", "b", "c")
}
