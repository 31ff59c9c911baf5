package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/telemetry"
	"berth/state"
	"berth/structs"
	"berth/test/oneserver"
)

// dialectWorld is a state and its published values.
type dialectWorld struct {
	t *testing.T
	*oneserver.Log
}

func newDialectWorld(t *testing.T, change func(*telemetry.Config)) *dialectWorld {
	cfg := telemetry.DefaultConfig()
	cfg.DisableHostname = true
	if change != nil {
		change(&cfg)
	}
	sinks, err := telemetry.Start(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sinks.Close)
	return &dialectWorld{t, oneserver.NewLog()}
}

func put[P any](w *dialectWorld, c fsm.Command[P], payload *P) {
	w.t.Helper()
	oneserver.Put(w.t, w, c, payload)
}

// addJob stores a job with one group for each count, and an evaluation.
func (w *dialectWorld) addJob(j *structs.Job, eval *structs.Evaluation, groups ...string) {
	w.t.Helper()
	j.Namespace = structs.DefaultNamespace
	j.Type = structs.JobService
	for _, name := range groups {
		task := &structs.Task{Name: "t", Resources: &structs.Resources{CPU: 100, MemoryMB: 64}}
		j.TaskGroups = append(j.TaskGroups, &structs.TaskGroup{Name: name, Count: 3, Tasks: []*structs.Task{task}})
	}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: j})
	if eval != nil {
		eval.Namespace = j.Namespace
		eval.JobID = j.ID
		eval.Type = j.Type
		put(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{eval}})
	}
}

// values counts and returns the values by name, with the values of their labels.
func (w *dialectWorld) values() (found map[string]float64, leftOut int) {
	p := &DialectGauges{}
	p.Gauges(func(telemetry.Gauge) { w.t.Error("there is a value before the first count") })
	leftOut = p.Count(w.Store.Read())
	found = map[string]float64{}
	p.Gauges(func(g telemetry.Gauge) {
		name := g.Name
		for _, label := range slices.Sorted(maps.Keys(g.Labels)) {
			name += " " + label + "=" + g.Labels[label]
		}
		found[name] = g.Value
	})
	return found, leftOut
}

func (w *dialectWorld) want(want map[string]float64) {
	w.t.Helper()
	found, leftOut := w.values()
	for name, value := range want {
		got, ok := found[name]
		if !ok || got != value {
			w.t.Errorf("%s is %v (%t), want %v", name, got, ok, value)
		}
	}
	if leftOut != 0 {
		w.t.Errorf("%d groups are left out", leftOut)
	}
}

func TestCount_TellsOfJobsEvaluationsAndNodes(t *testing.T) {
	w := newDialectWorld(t, nil)
	node := &structs.Node{ID: "n", SecretID: "s", Name: "n", Status: structs.NodeReady}
	node.NodeResources = &structs.NodeResources{
		CPU:    structs.NodeCPUResources{CpuShares: 100000},
		Memory: structs.NodeMemoryResources{MemoryMB: 100000},
		Disk:   structs.NodeDiskResources{DiskMB: 100000},
	}
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{Node: node})
	w.addJob(&structs.Job{ID: "web"}, nil, "a", "b")
	var place []*structs.Allocation
	var updates []*structs.AllocClientUpdate
	states := []string{structs.AllocRunning, structs.AllocRunning, structs.AllocFailed, structs.AllocComplete,
		structs.AllocPending}
	for i, status := range states {
		id := fmt.Sprint("alloc", i)
		place = append(place, &structs.Allocation{ID: id, JobID: "web", TaskGroup: "a", NodeID: "n"})
		updates = append(updates, &structs.AllocClientUpdate{ID: id, ClientStatus: status})
	}
	put(w, fsm.PlanApply, &structs.Plan{
		JobModifyIndex: state.Job(w.Store.Read(), structs.DefaultNamespace, "web").JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "done", JobID: "web", Status: structs.EvalComplete},
		Place:          place,
	})
	put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{NodeID: "n", Allocs: updates})
	w.addJob(&structs.Job{ID: "ready"}, &structs.Evaluation{ID: "e1", Status: structs.EvalPending}, "g")
	later := &structs.Evaluation{ID: "e2", Status: structs.EvalPending, WaitUntil: 1 << 62}
	w.addJob(&structs.Job{ID: "later"}, later, "g")
	w.addJob(&structs.Job{ID: "large"}, &structs.Evaluation{
		ID: "e3", Status: structs.EvalBlocked, BlockedOn: []string{"cpu", "memory"},
		QueuedAllocations: map[string]int{"g": 3},
	}, "g")
	w.addJob(&structs.Job{ID: "over"}, &structs.Evaluation{
		ID: "e4", Status: structs.EvalBlocked, BlockedOn: []string{"quota"}, QuotaLimitReached: "q",
	}, "g")

	of := func(name, job, group string) string {
		return "nomad.nomad." + name + " job=" + job + " namespace=default task_group=" + group
	}
	// The failed allocation has an evaluation, too.
	w.want(map[string]float64{
		of("job_summary.running", "web", "a"): 2, of("job_summary.failed", "web", "a"): 1,
		of("job_summary.complete", "web", "a"): 1, of("job_summary.starting", "web", "a"): 1,
		of("job_summary.lost", "web", "a"): 0, of("job_summary.unknown", "web", "a"): 0,
		of("job_summary.running", "web", "b"): 0, of("job_summary.queued", "large", "g"): 3,
		"nomad.nomad.job_status.running": 1, "nomad.nomad.job_status.pending": 4, "nomad.nomad.job_status.dead": 0,
		"nomad.nomad.broker.total_ready": 2, "nomad.nomad.broker.service_ready": 2,
		"nomad.nomad.broker.batch_ready":   0,
		"nomad.nomad.broker.total_waiting": 1, "nomad.nomad.broker.total_pending": 0,
		"nomad.nomad.plan.queue_depth":            0,
		"nomad.nomad.blocked_evals.total_blocked": 2, "nomad.nomad.blocked_evals.total_quota_limit": 1,
		"nomad.nomad.blocked_evals.job.cpu job=large namespace=default":    300,
		"nomad.nomad.blocked_evals.job.memory job=large namespace=default": 192,
		"nomad.nomad.heartbeat.active":                                     1,
	})
}

func TestCount_LeavesOutDispatchedJobsAndThoseBeyondTheBound(t *testing.T) {
	child := func() *structs.Job { return &structs.Job{ID: "j/dispatch-7", ParentID: "j", Dispatched: true} }
	const summary = "nomad.nomad.job_summary.running dispatch_id=7 job=j/dispatch-7 namespace=default parent_id=j task_group=g"
	w := newDialectWorld(t, nil)
	w.addJob(child(), nil, "g")
	w.want(map[string]float64{summary: 0})

	w = newDialectWorld(t, func(c *telemetry.Config) { c.DisableDispatchedJobSummaryMetrics = true })
	w.addJob(child(), nil, "g")
	found, _ := w.values()
	if _, has := found[summary]; has {
		t.Errorf("got %s", summary)
	}

	w = newDialectWorld(t, nil)
	var groups []string
	for i := range 1000 {
		groups = append(groups, fmt.Sprint("g", i))
	}
	for i := range MostDialectGroups/1000 + 1 {
		w.addJob(&structs.Job{ID: fmt.Sprint("j", i)}, nil, groups...)
	}
	found, leftOut := w.values()
	if leftOut != 1000 || len(found) < 7*MostDialectGroups || len(found) > 7*MostDialectGroups+100 {
		t.Errorf("%d values, and %d groups are left out", len(found), leftOut)
	}
}

func TestCount_CostsNothingWithoutNamesOfTheDialect(t *testing.T) {
	w := newDialectWorld(t, func(c *telemetry.Config) { c.DialectNames = false })
	w.addJob(&structs.Job{ID: "web"}, nil, "a")
	if found, _ := w.values(); len(found) != 0 {
		t.Errorf("got %v", found)
	}
}
