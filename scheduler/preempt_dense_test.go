package scheduler

import (
	"fmt"
	"testing"

	"berth/structs"
)

// small makes the allocations of a job as small as in a node with many of them.
func small(n, mhz, importance int, edits ...func(*structs.Job)) *structs.Job {
	return aJob(fmt.Sprint("low", importance), structs.JobService, count(n), cpu(mhz), priority(importance),
		func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = 1 }, both(edits...))
}

// A node with many allocations gives capacity, a port and a device like another one.
func TestPreemption_OnDenseNodes(t *testing.T) {
	for name, c := range map[string]struct {
		low  []*structs.Job
		high func(*structs.Job)
		want string // displaced
	}{
		"half of the node": {
			[]*structs.Job{small(200, 5, 10)}, cpu(500), "map[low10:100]"},
		"the least important half": {
			[]*structs.Job{small(100, 5, 10), small(100, 5, 20)}, cpu(500), "map[low10:100]"},
		"a port": {
			[]*structs.Job{small(150, 5, 10), small(1, 5, 30, port("http", 80))},
			both(cpu(1), port("http", 80)), "map[low30:1]"},
		"a port and capacity": {
			[]*structs.Job{small(199, 5, 10), small(1, 5, 30, port("http", 80))},
			both(cpu(10), port("http", 80)), "map[low10:1 low30:1]"},
		"a port and much capacity": {
			[]*structs.Job{small(199, 5, 10), small(1, 5, 30, port("http", 80))},
			both(cpu(500), port("http", 80)), "map[low10:99 low30:1]"},
		"a port and the capacity of one": {
			[]*structs.Job{small(62, 5, 10), small(1, 10, 20), small(20, 5, 25), small(1, 5, 30, port("http", 80)),
				small(1, 575, 45)},
			both(cpu(15), port("http", 80)), "map[low10:2 low30:1]"},
		"a device": {
			[]*structs.Job{small(150, 5, 10), small(1, 5, 30, demand("gpu", 1))},
			both(cpu(1), demand("gpu", 1)), "map[low30:1]"},
		"a device and capacity": {
			[]*structs.Job{small(199, 5, 10), small(1, 5, 30, demand("gpu", 1))},
			both(cpu(10), demand("gpu", 1)), "map[low10:1 low30:1]"},
		"too much": {
			[]*structs.Job{small(199, 5, 10), small(1, 5, 45)}, cpu(1000), "map[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.preempting()
			n := withDevices("n1", "acme/gpu/x1", 1)
			n.NodeResources.NodeNetworks = withPorts("n1", 1).NodeResources.NodeNetworks
			w.node(n)
			for _, j := range c.low {
				w.job(j)
				w.apply(w.process(w.eval(j.ID)))
			}
			w.job(aJob("high", structs.JobService, priority(50), c.high))
			w.apply(w.process(w.eval("high")))
			if got := w.evictedCounts(); got != c.want {
				t.Errorf("displaced %s, want %s", got, c.want)
			}
		})
	}
}

// Of nodes that are equally good each suffers at times. For one evaluation it is always the same one.
func TestPreemption_SpreadsOverNodes(t *testing.T) {
	w := running(t, aJob("low", structs.JobSystem, priority(20), cpu(800)), "10000000", "60000000", "b0000000")
	w.preempting()
	w.job(aJob("high", structs.JobService, priority(50), cpu(800)))
	suffered := map[string]bool{}
	for range 400 { // one of the nodes suffers once in twenty times
		e := w.eval("high")
		node := w.process(e).Place[0].NodeID
		suffered[node] = true
		if again := w.process(e).Place[0].NodeID; again != node {
			t.Fatalf("an evaluation takes node %s, and then node %s", node, again)
		}
	}
	if len(suffered) != 3 {
		t.Errorf("only the nodes %v suffer", suffered)
	}
}
