package scheduler

import (
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// quota gives the default namespace a quota, or changes its bounds.
func (w *fixture) quota(b quota.Bounds) {
	w.t.Helper()
	do(w, namespace.QuotaPut, &quota.SpecPutRequest{Quota: &quota.Spec{
		Name:   "team",
		Limits: []*quota.Limit{{Region: "global", RegionLimit: &b}},
	}})
	w.nameQuota("team")
}

func (w *fixture) nameQuota(name string) {
	w.t.Helper()
	do(w, namespace.Apply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{Name: structs.DefaultNamespace, Quota: name},
	})
}

// pending processes the evaluations that an entry has made pending, until none is left.
func (w *fixture) pending() {
	w.t.Helper()
	for range 20 {
		next := slices.Collect(state.ReadyEvals(w.s.Read()))
		if len(next) == 0 {
			return
		}
		w.apply(w.process(next[0]))
	}
	w.t.Fatal("the evaluations do not settle")
}

// finish makes a node report the end of an allocation whose job has ended.
func (w *fixture) finish(job string) {
	w.t.Helper()
	a := w.allocs(job)[0]
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: job, WriteOptions: w.now()})
	w.run(job)
	w.client(a, structs.AllocComplete)
}

func TestQuota_BoundsWhatAPlanPlaces(t *testing.T) {
	memoryMax := func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = 200 }
	for name, c := range map[string]struct {
		bounds quota.Bounds
		edits  []func(*structs.Job)
		want   int    // of 3 allocations
		says   string // the reason of the first one without a place
	}{
		"no bound":    {quota.Bounds{}, nil, 3, ""},
		"all":         {quota.Bounds{Allocations: 3, CPU: 300, MemoryMB: 300}, nil, 3, ""},
		"allocations": {quota.Bounds{Allocations: 2}, nil, 2, "allocations: 2 used, 1 asked, 2 allowed"},
		"cpu":         {quota.Bounds{CPU: 299}, nil, 2, "cpu: 200 MHz used, 100 MHz asked, 299 MHz allowed"},
		"memory":      {quota.Bounds{MemoryMB: 150}, nil, 1, "memory: 100 MiB used, 100 MiB asked, 150 MiB allowed"},
		"nothing":     {quota.Bounds{CPU: -1}, nil, 0, "cpu: 0 MHz used, 100 MHz asked, 0 MHz allowed"},
		"memory_max that counts": {
			quota.Bounds{MemoryMaxMB: 450}, []func(*structs.Job){memoryMax}, 2,
			"memory_max: 400 MiB used, 200 MiB asked, 450 MiB allowed",
		},
		"on every node": {quota.Bounds{Allocations: 2}, []func(*structs.Job){func(j *structs.Job) {
			j.Type = structs.JobSystem
			j.TaskGroups[0].Count = 1
		}}, 2, "allocations: 2 used, 1 asked, 2 allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			config := cluster.DefaultSchedulerConfiguration()
			config.MemoryOversubscriptionEnabled = true
			do(w, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
			w.nodes("n1", "n2", "n3")
			w.quota(c.bounds)
			w.job(aJob("web", structs.JobService, append([]func(*structs.Job){count(3), cpu(100)}, c.edits...)...))
			p := w.run("web")
			if got := len(w.allocs("web")); got != c.want {
				t.Errorf("%d allocations are placed, want %d", got, c.want)
			}
			failed := p.Eval.FailedTGAllocs["g"]
			if c.says == "" {
				if failed != nil {
					t.Errorf("the plan fails: %+v", failed)
				}
				return
			}
			if failed == nil || !strings.Contains(strings.Join(failed.QuotaExhausted, "|"), "quota team: "+c.says) {
				t.Fatalf("the plan says %+v, want %q", failed, c.says)
			}
			if p.Eval.QuotaLimitReached != "team" || p.Blocked.QuotaLimitReached != "team" {
				t.Error("the evaluations do not name the quota")
			}
		})
	}
}

// An evaluation that only the quota blocks waits for the quota alone.
func TestQuota_BlocksTheEvaluationUntilItsUseFalls(t *testing.T) {
	for name, change := range map[string]func(w *fixture){
		"an allocation ends":    func(w *fixture) { w.finish("first") },
		"the bound rises":       func(w *fixture) { w.quota(quota.Bounds{Allocations: 2}) },
		"the namespace is free": func(w *fixture) { w.nameQuota("") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.nodes("n1")
			w.quota(quota.Bounds{Allocations: 1})
			w.job(aJob("first", structs.JobService))
			w.run("first")
			w.job(aJob("second", structs.JobService))
			p := w.run("second")
			if got := blockedOn(p); !slices.Equal(got, []string{"quota:team"}) {
				t.Errorf("it waits for %q", got)
			}
			if got := p.Blocked.StatusDescription; got != "waiting for quota team" {
				t.Errorf("it is %q", got)
			}
			w.nodes("n2") // capacity is no reason to try again
			w.pending()
			w.wantPlaced("second", "")
			change(w)
			w.pending()
			if got := len(w.allocs("second")); got != 1 {
				t.Errorf("%d allocations are placed", got)
			}
		})
	}
}

// The nodes were not tried while the quota had no place, so all are tried after that.
func TestQuota_TriesAllNodesAfterItHadNoPlace(t *testing.T) {
	w := newFixture(t)
	for i := range 3 * retriedNodes {
		n := aNode(structs.NewID())
		n.Meta["rack"] = "r1"
		if i == 0 {
			n.Meta["rack"] = "the one"
		}
		w.node(n)
	}
	w.quota(quota.Bounds{Allocations: -1})
	w.job(aJob("web", structs.JobService, constraints(&structs.Constraint{
		LTarget: "${meta.rack}", RTarget: "the one", Operand: "=",
	})))
	w.run("web")
	w.wantPlaced("web", "")
	w.quota(quota.Bounds{})
	w.pending()
	if got := len(w.allocs("web")); got != 1 {
		t.Errorf("%d allocations are placed", got)
	}
}

// A placement beyond the quota displaces nobody.
func TestQuota_DisplacesNobody(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.preempting()
	w.job(aJob("low", structs.JobService, cpu(900), priority(10)))
	w.run("low")
	w.quota(quota.Bounds{CPU: 1000})
	w.job(aJob("high", structs.JobService, cpu(800), priority(90)))
	w.run("high")
	w.wantPlaced("high", "")
	if got := w.evicted(); got != "" {
		t.Errorf("%q are displaced", got)
	}
	w.quota(quota.Bounds{CPU: 1700})
	w.pending()
	w.wantPlaced("high", "0@n1")
}

// An update within the bounds replaces one for one. An update to more than is left waits, and its
// predecessors go on.
func TestQuota_LetsUpdatesReplaceAndHoldsLargerOnes(t *testing.T) {
	for name, c := range map[string]struct {
		mhz, most int
		updated   int
	}{
		"as large":             {100, 300, 3},
		"as large, over quota": {100, 200, 3},
		"larger":               {101, 300, 0},
		"larger, one fits":     {150, 350, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.nodes("n1")
			w.job(aJob("web", structs.JobService, count(3), cpu(100), atOnce))
			w.run("web")
			w.quota(quota.Bounds{CPU: c.most})
			w.job(aJob("web", structs.JobService, count(3), cpu(c.mhz), atOnce, func(j *structs.Job) {
				j.TaskGroups[0].Tasks[0].Env = map[string]string{"new": "yes"}
			}))
			w.run("web")
			w.pending()
			updated := 0
			for _, a := range w.allocs("web") {
				if a.JobVersion == 1 {
					updated++
				}
			}
			if got := len(w.allocs("web")); got != 3 || updated != c.updated {
				t.Errorf("%d allocations run, %d of them new; want 3 with %d", got, updated, c.updated)
			}
		})
	}
}

func TestQuota_CountsTheDevicesOfTheNode(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "nvidia/gpu/a", 4))
	w.node(withDevices("n2", "amd/gpu/b", 4))
	w.quota(quota.Bounds{Devices: []*quota.DeviceBound{{Name: "nvidia/gpu", Count: 1}}})
	w.job(aJob("web", structs.JobService, count(6), cpu(1), demand("gpu", 1)))
	p := w.run("web")
	onNodes := map[string]int{}
	for _, a := range w.allocs("web") {
		onNodes[a.NodeID]++
	}
	if onNodes["n1"] != 1 || onNodes["n2"] != 4 {
		t.Errorf("placed %v, want 1 on n1 and 4 on n2", onNodes)
	}
	if got := rejections(p, "g"); !strings.Contains(got, "device nvidia/gpu: 1 used, 1 asked, 1 allowed") {
		t.Errorf("the plan says %q", got)
	}
}
