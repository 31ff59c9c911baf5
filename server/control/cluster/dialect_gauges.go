package cluster

import (
	"maps"
	"sync/atomic"

	"berth/internal/telemetry"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// MostDialectGroups bounds the task groups with a summary. Each one has eight values.
const MostDialectGroups = 5000

// DialectGauges has the values of the last count.
//
// It counts jobs, evaluations and nodes on the leader under the names of the dialect, for its
// dashboards.
type DialectGauges struct {
	gauges atomic.Pointer[[]telemetry.Gauge]
}

// Gauges yields the values of the last count.
func (p *DialectGauges) Gauges(yield func(telemetry.Gauge)) {
	all := p.gauges.Load()
	if all == nil {
		return
	}
	for _, g := range *all {
		yield(g)
	}
}

// Count counts the rows, unless the configuration of the process serves no names of the dialect. It returns
// the number of the task groups that are left out: those beyond MostDialectGroups.
func (p *DialectGauges) Count(tx *state.ReadTx) (leftOut int) {
	settings := telemetry.Settings()
	if !settings.DialectNames {
		return 0
	}
	c := &count{tx: tx, settings: settings}
	c.jobs()
	c.evaluations()
	c.nodes()
	p.gauges.Store(&c.found)
	return max(0, c.groups-MostDialectGroups)
}

// count is a count in work.
type count struct {
	tx       *state.ReadTx
	settings telemetry.Config
	found    []telemetry.Gauge
	groups   int
}

func (c *count) gauge(name, help string, value int, labels map[string]string) {
	c.found = append(c.found, telemetry.Gauge{
		Name:   "nomad.nomad." + name,
		Help:   help,
		Labels: labels,
		Value:  float64(value),
	})
}

// jobs counts the jobs, and the allocations of each of their groups.
func (c *count) jobs() {
	statuses := map[string]int{structs.JobPending: 0, structs.JobRunning: 0, structs.JobDead: 0}
	for j := range state.JobsFrom(c.tx, structs.AllNamespaces, "", state.Page{}) {
		statuses[j.Status]++
		if j.Dispatched && c.settings.DisableDispatchedJobSummaryMetrics {
			continue
		}
		c.groups += len(j.TaskGroups)
		if c.groups <= MostDialectGroups {
			c.summary(j)
		}
	}
	for status, n := range statuses {
		c.gauge("job_status."+status, "Jobs that are "+status, n, nil)
	}
}

// summary counts the allocations of a job.
func (c *count) summary(j *structs.Job) {
	for name, g := range state.JobSummary(c.tx, j).Summary {
		labels := map[string]string{
			"job":        j.ID,
			"namespace":  j.Namespace,
			"task_group": name,
		}
		maps.Copy(labels, telemetry.ChildLabels(j.ID, j.ParentID))
		c.gauge("job_summary.queued", "Allocations that are still to be placed", g.Queued, labels)
		c.gauge("job_summary.starting", "Allocations that start", g.Starting, labels)
		c.gauge("job_summary.running", "Allocations that run", g.Running, labels)
		c.gauge("job_summary.complete", "Allocations that have ended without a failure", g.Complete, labels)
		c.gauge("job_summary.failed", "Allocations that have failed", g.Failed, labels)
		c.gauge("job_summary.lost", "Allocations that were lost with their nodes", g.Lost, labels)
		c.gauge("job_summary.unknown", "Allocations on nodes that are away", g.Unknown, labels)
	}
}

// evaluations counts the evaluations that are not done. The servers merge an evaluation with an open one of
// its job, and plans wait in no queue, so that two of the values are always 0.
func (c *count) evaluations() {
	ready := map[string]int{}
	all := 0
	for e := range state.ReadyEvals(c.tx) {
		ready[e.Type]++
		all++
	}
	for _, kind := range []string{structs.JobService, structs.JobBatch, structs.JobSystem, structs.JobSysBatch} {
		c.gauge("broker."+kind+"_ready", "Evaluations of "+kind+" jobs that are due", ready[kind], nil)
	}
	waiting := 0
	for range state.LaterEvals(c.tx) {
		waiting++
	}
	c.gauge("broker.total_ready", "Evaluations that are due", all, nil)
	c.gauge("broker.total_waiting", "Evaluations that wait for a time", waiting, nil)
	c.gauge("broker.total_pending", "Evaluations behind another one of their job", 0, nil)
	c.gauge("plan.queue_depth", "Plans that wait", 0, nil)
	c.blocked()
}

// blocked counts the evaluations that wait for capacity or a quota, and what they ask for.
func (c *count) blocked() {
	seen := map[string]bool{}
	quota := 0
	for e := range schema.EvalsByBlocked.Scan(c.tx) {
		if seen[e.ID] || e.Status != structs.EvalBlocked {
			continue // it waits for several keys, or for none any more
		}
		seen[e.ID] = true
		if e.QuotaLimitReached != "" {
			quota++
		}
		if len(seen) <= MostDialectGroups {
			c.asked(e)
		}
	}
	c.gauge("blocked_evals.total_blocked", "Evaluations that wait for capacity or a quota", len(seen), nil)
	c.gauge("blocked_evals.total_quota_limit", "Evaluations that wait for a quota", quota, nil)
	c.gauge("blocked_evals.total_escaped", "Evaluations that every change of a node unblocks", 0, nil)
}

// asked tells what the allocations ask for that an evaluation could not place.
func (c *count) asked(e *structs.Evaluation) {
	j := state.Job(c.tx, e.Namespace, e.JobID)
	if j == nil || e.QuotaLimitReached != "" {
		return
	}
	var sum structs.Resources
	for _, g := range j.TaskGroups {
		one := g.Ask()
		for range e.QueuedAllocations[g.Name] {
			sum = sum.Add(one)
		}
	}
	labels := map[string]string{"job": j.ID, "namespace": j.Namespace}
	c.gauge("blocked_evals.job.cpu", "MHz that a job lacks", sum.CPU, labels)
	c.gauge("blocked_evals.job.memory", "MiB of memory that a job lacks", sum.MemoryMB, labels)
}

// nodes counts the nodes with a lease.
func (c *count) nodes() {
	active := 0
	for n := range state.Nodes(c.tx) {
		if n.Status != structs.NodeDown {
			active++
		}
	}
	c.gauge("heartbeat.active", "Nodes with a lease", active, nil)
}
