package scheduler

import (
	"testing"

	"berth/state"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/cluster"
)

// unblockSource is a change after which a job that waits finds a place.
type unblockSource struct {
	job    *structs.Job
	before func(w *fixture) // the cluster without capacity for the job
	change func(w *fixture)
}

// without returns a node that edit makes unfit.
func without(id string, edit func(*structs.Node)) *structs.Node {
	n := aNode(id)
	edit(n)
	return n
}

// replaced returns a source whose node n1 is unfit for the job at first, and then registers without the edit.
func replaced(unfit func(*structs.Node), job ...func(*structs.Job)) unblockSource {
	return unblockSource{
		job:    aJob("web", structs.JobService, job...),
		before: func(w *fixture) { w.node(without("n1", unfit)) },
		change: func(w *fixture) { w.node(fullNode("n1")) },
	}
}

// fullNode has all that the jobs of these tests demand.
func fullNode(id string) *structs.Node {
	n := withDevices(id, "acme/gpu/x1", 1)
	n.NodeResources.NodeNetworks = withPorts(id, 9).NodeResources.NodeNetworks
	n.HostVolumes = withHostVolume(id, false).HostVolumes
	return n
}

func (w *fixture) configure(edit func(*cluster.SchedulerConfiguration)) {
	w.t.Helper()
	config := *state.SchedulerConfig(w.s.Read())
	edit(&config)
	do(w, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config, WriteOptions: w.now()})
}

// occupied fills n1 with a job.
func occupied(edits ...func(*structs.Job)) func(*fixture) {
	return func(w *fixture) {
		w.nodes("n1")
		w.submit(aJob("other", structs.JobService, append([]func(*structs.Job){cpu(900)}, edits...)...), "fill")
		w.scheduleAll()
	}
}

// unblockSources lists every change that makes capacity, or makes a node fit. What is not here makes none:
// the algorithm of the scheduler and of a node pool only order nodes, a drain that is complete leaves its
// node ineligible, and a namespace has no quota.
var unblockSources = map[string]unblockSource{
	// rows of nodes
	"a node registers": {
		job:    aJob("web", structs.JobService),
		before: func(*fixture) {},
		change: func(w *fixture) { w.nodes("n1") },
	},
	"a node comes back": {
		job:    aJob("web", structs.JobService),
		before: func(w *fixture) { w.nodes("n1"); w.status("n1", structs.NodeDown) },
		change: func(w *fixture) { w.status("n1", structs.NodeReady) },
	},
	"a node becomes eligible": {
		job:    aJob("web", structs.JobService),
		before: func(w *fixture) { w.nodes("n1"); w.eligible("n1", structs.NodeIneligible) },
		change: func(w *fixture) { w.eligible("n1", structs.NodeEligible) },
	},
	"a drain is cancelled": {
		job: aJob("web", structs.JobService),
		before: func(w *fixture) {
			w.nodes("n1")
			do(w, state.NodeDrain, &structs.NodeDrainRequest{
				NodeID: "n1", DrainSpec: &structs.DrainSpec{}, WriteOptions: w.now()})
		},
		change: func(w *fixture) {
			do(w, state.NodeDrain, &structs.NodeDrainRequest{
				NodeID: "n1", MarkEligible: true, WriteOptions: w.now()})
		},
	},
	"a node grows": replaced(func(n *structs.Node) { n.NodeResources.CPU.CpuShares = 10 }),
	"a node reserves less": replaced(func(n *structs.Node) {
		n.ReservedResources = &structs.NodeReservedResources{CPU: structs.NodeReservedCPU{CpuShares: 950}}
	}),
	"a node moves to the pool":       replaced(func(n *structs.Node) { n.NodePool = "gpu" }),
	"a node moves to the datacenter": replaced(func(n *structs.Node) { n.Datacenter = "dc9" }, inDC1),
	"a driver becomes healthy":       replaced(func(n *structs.Node) { n.Drivers["exec"].Healthy = false }),
	"meta changes": replaced(func(n *structs.Node) { n.Meta = nil }, constraints(&structs.Constraint{
		LTarget: "${meta.rack}", Operand: "=", RTarget: "r1"})),
	"a device comes":       replaced(func(*structs.Node) {}, demand("gpu", 1)),
	"a host network comes": replaced(func(*structs.Node) {}, port("http", 80)),
	"a host volume comes":  replaced(func(*structs.Node) {}, hostVolume("", true)),

	// allocations
	"an allocation ends": {
		job:    aJob("web", structs.JobService, cpu(800)),
		before: occupied(),
		change: func(w *fixture) {
			a := w.allocs("other")[0]
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "other", Purge: true,
				Eval: w.eval("other"), WriteOptions: w.now()})
			w.scheduleAll()
			w.client(a, structs.AllocComplete)
		},
	},
	"a count shrinks": {
		job:    aJob("web", structs.JobService, cpu(800)),
		before: occupied(),
		change: func(w *fixture) {
			a := w.allocs("other")[0]
			w.submit(aJob("other", structs.JobService, cpu(900), count(0)), "shrink")
			w.scheduleAll()
			w.client(a, structs.AllocComplete)
		},
	},

	// preemption
	"preemption is allowed for the type of the job": {
		job:    aJob("web", structs.JobService, cpu(800), priority(70)),
		before: occupied(),
		change: func(w *fixture) {
			w.configure(func(c *cluster.SchedulerConfiguration) { c.PreemptionConfig.ServiceSchedulerEnabled = true })
		},
	},
	"preemption is allowed for a job on every node": {
		job: aJob("web", structs.JobSystem, cpu(800), priority(70)),
		before: func(w *fixture) {
			w.configure(func(c *cluster.SchedulerConfiguration) { c.PreemptionConfig.SystemSchedulerEnabled = false })
			occupied()(w)
		},
		change: func(w *fixture) {
			w.configure(func(c *cluster.SchedulerConfiguration) { c.PreemptionConfig.SystemSchedulerEnabled = true })
		},
	},
	"the priority of the job is raised": {
		job:    aJob("web", structs.JobService, cpu(800), priority(55)),
		before: func(w *fixture) { w.preempting(); occupied()(w) },
		change: func(w *fixture) {
			w.submit(aJob("web", structs.JobService, cpu(800), priority(60)), "raised")
		},
	},
	"the priority of another job is lowered": {
		job:    aJob("web", structs.JobService, cpu(800), priority(55)),
		before: func(w *fixture) { w.preempting(); occupied()(w) },
		change: func(w *fixture) {
			w.submit(aJob("other", structs.JobService, cpu(900), priority(45)), "lowered")
		},
	},
	"the priority of another job is lowered, for a job on every node": {
		job:    aJob("web", structs.JobSystem, cpu(800), priority(55)),
		before: func(w *fixture) { w.preempting(); occupied()(w) },
		change: func(w *fixture) {
			w.submit(aJob("other", structs.JobService, cpu(900), priority(45)), "lowered")
		},
	},

	// storage
	"a volume is registered": {
		job:    aJob("web", structs.JobService, volume("v", structs.CSISingleNodeWriter, false)),
		before: func(w *fixture) { w.node(aNode("n1"), half("hostpath", structs.CSIKindNode)) },
		change: func(w *fixture) { w.volume("v", "hostpath") },
	},
	"a plugin becomes healthy": {
		job: aJob("web", structs.JobService, volume("v", structs.CSISingleNodeWriter, false)),
		before: func(w *fixture) {
			sick := half("hostpath", structs.CSIKindNode)
			sick.Healthy = false
			w.node(aNode("n1"), sick)
			w.volume("v", "hostpath")
		},
		change: func(w *fixture) { w.csi("n1", half("hostpath", structs.CSIKindNode)) },
	},
	"a limit of volumes is raised": {
		job: aJob("web", structs.JobService, volume("v", structs.CSISingleNodeWriter, false)),
		before: func(w *fixture) {
			w.node(aNode("n1"), limitedPlugin(1))
			w.volume("v", "hostpath")
			w.volume("u", "hostpath")
			w.submit(aJob("other", structs.JobService, volume("u", structs.CSISingleNodeWriter, false)), "other")
			w.scheduleAll()
		},
		change: func(w *fixture) { w.csi("n1", limitedPlugin(2)) },
	},
	"a claim is released": {
		job: aJob("web", structs.JobService, volume("v", structs.CSISingleNodeWriter, false)),
		before: func(w *fixture) {
			w.node(aNode("n1"), half("hostpath", structs.CSIKindNode))
			w.volume("v", "hostpath")
			w.submit(aJob("other", structs.JobService, volume("v", structs.CSISingleNodeWriter, false)), "other")
			w.scheduleAll()
			w.claim(w.allocs("other")[0])
		},
		change: func(w *fixture) {
			a := w.allocs("other")[0]
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "other", Eval: w.eval("other"),
				WriteOptions: w.now()})
			w.scheduleAll()
			w.client(a, structs.AllocComplete)
			w.release(a)
		},
	},
}

func inDC1(j *structs.Job) { j.Datacenters = []string{"dc1"} }

func (w *fixture) eligible(node, eligibility string) {
	w.t.Helper()
	do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID: node, Eligibility: eligibility, WriteOptions: w.now()})
}

// TestBlockedEval_IsUnblockedByEverySource: a job waits, the change comes, and its blocked evaluation places
// it without another request.
func TestBlockedEval_IsUnblockedByEverySource(t *testing.T) {
	for name, source := range unblockSources {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			source.before(w)
			w.submit(source.job.Copy(), "first")
			w.scheduleAll()
			w.wantPlaced("web", "")
			source.change(w)
			w.scheduleAll()
			w.wantPlaced("web", "0@n1")
		})
	}
}

// TestBlockedEval_OfOneShapeButAnotherType: preemption becomes possible for jobs of one type. The head of the
// queue has the other type, finds nothing, and does not stand for those behind it.
func TestBlockedEval_OfOneShapeButAnotherType(t *testing.T) {
	w := newFixture(t)
	occupied()(w)
	w.submit(aJob("batch", structs.JobBatch, cpu(800), priority(70)), "a")
	w.scheduleAll()
	w.submit(aJob("web", structs.JobService, cpu(800), priority(70)), "b")
	w.scheduleAll()
	w.configure(func(c *cluster.SchedulerConfiguration) { c.PreemptionConfig.ServiceSchedulerEnabled = true })
	w.scheduleAll()
	w.wantPlaced("web", "0@n1")
	w.wantPlaced("batch", "")
}

// A configuration that allows less, or orders nodes in another way, unblocks nothing.
func TestSchedulerConfig_UnblocksOnlyIfItAllowsMore(t *testing.T) {
	w := newFixture(t)
	w.configure(func(*cluster.SchedulerConfiguration) {})
	occupied()(w)
	w.submit(aJob("web", structs.JobService, cpu(800)), "web")
	w.scheduleAll()
	w.configure(func(c *cluster.SchedulerConfiguration) {
		c.SchedulerAlgorithm = cluster.AlgorithmSpread
		c.PreemptionConfig.SystemSchedulerEnabled = false
	})
	if pending := w.evals(structs.EvalPending); len(pending) > 0 || unblock.Due(w.s.Read()) {
		t.Errorf("unblocked %d evaluations", len(pending))
	}
}

// A lost allocation of an older version is placed again where that version may run, until the promotion of
// the canaries. Such an evaluation does not stand for jobs that may run where the new version does.
func TestBlockedEval_OfAFormerVersionElsewhere(t *testing.T) {
	d := &deployments{newFixture(t)}
	node := func(id, dc string) {
		n := aNode(id)
		n.Datacenter = dc
		d.node(n)
	}
	job := func(id, dc string, canaries int) *structs.Job {
		return aJob(id, structs.JobService, cpu(600), func(j *structs.Job) {
			j.Datacenters = []string{dc}
			u := structs.DefaultUpdateStrategy()
			u.Canary = canaries
			j.TaskGroups[0].Update = &u
		})
	}
	node("n1", "dc1")
	node("n2", "dc2")
	d.job(job("web", "dc1", 0))
	d.plan()
	d.health(d.allocs("web")[0], true, structs.AllocRunning)
	d.job(job("web", "dc2", 1))
	d.plan()
	d.status("n1", structs.NodeDown)
	d.plan()
	d.submit(job("other", "dc2", 0), "other")
	d.scheduleAll()
	d.wantPlaced("other", "")
	node("n3", "dc2")
	d.scheduleAll()
	d.wantPlaced("web", "0@n2")
	d.wantPlaced("other", "0@n3")
}
