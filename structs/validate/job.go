package validate

import (
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

var jobTypes = []string{structs.JobService, structs.JobBatch, structs.JobSystem, structs.JobSysBatch}

// Job checks a canonicalized job and returns every fault, each with its path. It checks only the
// specification: the scheduler decides whether volumes and plugins exist.
func Job(j *structs.Job) error {
	return JobFaults(j).Err()
}

// JobFaults returns the faults of Validate.
func JobFaults(j *structs.Job) *field.Faults {
	f := field.New("")
	f.CheckName("job: id", ownID(j))
	f.Require(len(j.ID) <= structs.MaxName, "job: id must have at most %d bytes", structs.MaxName)
	f = f.At("job %q", j.ID)
	f.CheckName("region", j.Region)
	checkNamespace(f, j.Namespace)
	f.CheckString("name", j.Name, structs.MaxName)
	f.CheckOneOf("type", j.Type, jobTypes)
	f.Require(j.Priority >= structs.JobMinPriority && j.Priority <= structs.JobMaxPriority,
		"priority %d must be between %d and %d", j.Priority, structs.JobMinPriority, structs.JobMaxPriority)
	f.Require(nodePoolForm().MatchString(j.NodePool),
		"node_pool %q must be 1 to 128 letters, digits, dashes and underscores", j.NodePool)
	for _, dc := range field.FirstOf(f, "datacenters", j.Datacenters, structs.MaxListed) {
		f.CheckName("datacenters: name", dc)
	}

	f.CheckMeta("meta", j.Meta)
	Constraints(f, j.Constraints)
	checkAffinities(f, j, j.Affinities)
	checkSpreads(f, j, j.Spreads)
	checkJobUpdate(f.At("update"), j)
	if j.Periodic != nil {
		checkPeriodic(f.At("periodic"), j.Periodic, j)
	}

	if j.ParameterizedJob != nil {
		checkParameterized(f.At("parameterized"), j.ParameterizedJob, j)
	}

	checkGroups(f, j)
	return f.Found()
}

// checkGroups checks the groups of a job, each by itself, and their names and counts together.
func checkGroups(f field.Errors, j *structs.Job) {
	f.Require(len(j.TaskGroups) > 0, "at least one group is required")
	seen := map[string]bool{}
	total := 0
	for i, g := range field.FirstOf(f, "groups", j.TaskGroups, structs.MaxGroups) {
		if g == nil {
			f.Addf("group %d is null", i)
			continue
		}

		f.Require(!seen[g.Name], "group %q is there twice", g.Name)
		seen[g.Name] = true
		checkGroup(f.At("group %q", g.Name), g, j)

		// Each part is bounded, so that the sum does not overflow. One beyond MaxJobCount is a fault in any
		// case.
		total += min(max(g.Count, 0), structs.MaxJobCount+1)
	}

	f.Require(total <= structs.MaxJobCount, "the counts of its groups are more than %d in sum",
		structs.MaxJobCount)
}

// ownID returns the ID without the ID of the parent, with which the ID of a child begins.
func ownID(j *structs.Job) string {
	if j.ParentID == "" {
		return j.ID
	}
	return strings.TrimPrefix(j.ID, j.ParentID+"/")
}

// checkGroup checks a group of a job, by itself and by what the type of the job allows.
func checkGroup(f field.Errors, g *structs.TaskGroup, j *structs.Job) {
	f.CheckName("name", g.Name)
	f.Require(g.Count >= 0, "count %d must not be negative", g.Count)
	f.Require(g.Count <= structs.MaxGroupCount, "count %d must be at most %d", g.Count, structs.MaxGroupCount)
	f.Require(!j.PerNode() || g.Count <= 1,
		"count %d: a %s job places one on every feasible node; leave count out", g.Count, j.Type)
	Constraints(f, g.Constraints)
	checkAffinities(f, j, g.Affinities)
	checkSpreads(f, j, g.Spreads)
	f.CheckMeta("meta", g.Meta)
	checkRestartPolicy(f.At("restart"), g.RestartPolicy)
	if g.ReschedulePolicy != nil {
		f.Require(!j.PerNode(), "reschedule: a %s job has none: its instances belong to their nodes", j.Type)
		checkReschedulePolicy(f.At("reschedule"), g.ReschedulePolicy)
	}

	checkGroupUpdate(f, g, j)
	checkScaling(f, g, j)
	checkDisconnect(f.At("disconnect"), g.Disconnect, j)
	if d := g.EphemeralDisk; d != nil {
		f.CheckRange("ephemeral_disk: size", d.SizeMB, field.Between(0, structs.MaxDiskMB).In(" MiB"))
	}

	if g.ShutdownDelay != nil {
		f.CheckDuration("shutdown_delay", *g.ShutdownDelay, structs.MaxTaskWait)
	}

	checkRunDuration(f, g, j)
	checkNetworks(f, g)
	checkConsul(f.At("consul"), g.Consul)
	checkVolumes(f, g, j)
	checkTasks(f, g, j)
	checkServices(f, g)
	checkSum(f, g.Ask())
}

// checkRunDuration checks the time after which an allocation of a group is stopped.
func checkRunDuration(f field.Errors, g *structs.TaskGroup, j *structs.Job) {
	if g.MaxRunDuration == nil {
		return
	}
	f.Require(j.Type == structs.JobBatch || j.Type == structs.JobSysBatch,
		"max_run_duration is for batch and sysbatch jobs: the tasks of a %s job have no end; leave it out",
		j.Type)
	f.Require(*g.MaxRunDuration > 0, "max_run_duration %s must be more than 0", *g.MaxRunDuration)
	f.CheckDuration("max_run_duration", max(0, *g.MaxRunDuration), structs.MaxInterval)
}

// checkTasks checks the tasks of a group, each by itself and against the others: their names, their leader,
// and the halves of plugins that they run.
func checkTasks(f field.Errors, g *structs.TaskGroup, j *structs.Job) {
	f.Require(len(g.Tasks) > 0 || g.HasGateway(), "at least one task is required")
	seen := map[string]bool{}
	kinds := map[structs.TaskKind]bool{}
	leaders := 0
	serves := map[string]string{} // plugin and half -> task
	for i, t := range field.FirstOf(f, "tasks", g.Tasks, structs.MaxTasks) {
		if t == nil {
			f.Addf("task %d is null", i)
			continue
		}

		f.Require(!seen[t.Name], "task %q is there twice", t.Name)
		seen[t.Name] = true
		if t.Leader {
			leaders++
		}

		checkTask(f.At("task %q", t.Name), t, g)
		checkKind(f.At("task %q", t.Name), g, t, kinds)
		checkAffinities(f.At("task %q", t.Name), j, t.Affinities)
		if t.CSIPluginConfig == nil {
			continue
		}

		for _, kind := range t.CSIPluginConfig.Kinds() {
			// Two tasks with one half of a plugin would serve it by two sockets, and the node has one
			// instance of it.
			key := t.CSIPluginConfig.ID + "\x00" + string(kind)
			f.Require(serves[key] == "",
				"tasks %q and %q both run the %s half of plugin %q; one group may run it once",
				serves[key], t.Name, kind, t.CSIPluginConfig.ID)
			serves[key] = t.Name
		}
	}

	f.Require(leaders <= 1, "%d tasks are leader; at most one may be", leaders)
	checkLifecycles(f, g)
}

// checkLifecycles checks that a group has a task that is no helper of others.
func checkLifecycles(f field.Errors, g *structs.TaskGroup) {
	helpers := 0
	for _, t := range g.Tasks {
		if t != nil && t.Lifecycle != nil {
			helpers++
		}
	}
	f.Require(helpers == 0 || helpers < len(g.Tasks),
		"every task has a lifecycle; at least one without it, a main task, is required")
}

// checkLifecycle checks when a helper task runs. A leader ends the group with its end, and a helper must not
// decide on that.
func checkLifecycle(f field.Errors, l *structs.TaskLifecycle, t *structs.Task) {
	f.CheckOneOf("hook", l.Hook, []string{structs.LifecyclePrestart, structs.LifecyclePoststart,
		structs.LifecyclePoststop})
	f.Require(!l.Sidecar || l.Hook != structs.LifecyclePoststop,
		"sidecar: a poststop task runs after the main tasks have ended, so it cannot be a sidecar of them")
	f.Require(!t.Leader, "the task is leader; only a task without a lifecycle may be")
}

// checkRestartPolicy checks how a node restarts a failed task.
func checkRestartPolicy(f field.Errors, p *structs.RestartPolicy) {
	if p == nil {
		return
	}

	f.Require(p.Mode == structs.RestartModeFail || p.Mode == structs.RestartModeDelay,
		"mode %q must be one of fail, delay", p.Mode)
	f.CheckRange("attempts", p.Attempts, field.Between(0, structs.MaxRestarts))
	f.CheckDuration("delay", p.Delay, structs.MaxInterval)
	f.Require(p.Interval > 0, "interval must be above zero")
	f.CheckDuration("interval", p.Interval, structs.MaxInterval)

	// Attempts that do not fit into their interval never reach the limit, so the mode would have no effect.
	f.Require(p.Attempts <= 0 || p.Delay <= 0 ||
		int64(p.Interval/p.Delay) >= int64(p.Attempts),
		"%d attempts, %s apart, do not fit into an interval of %s", p.Attempts, p.Delay, p.Interval)
}

// checkReschedulePolicy checks when the servers replace a failed allocation by another one.
func checkReschedulePolicy(f field.Errors, p *structs.ReschedulePolicy) {
	f.CheckRange("attempts", p.Attempts, field.Between(0, structs.MaxReschedules))
	f.CheckDuration("interval", p.Interval, structs.MaxInterval)
	f.CheckDuration("delay", p.Delay, structs.MaxInterval)
	f.CheckDuration("max_delay", p.MaxDelay, structs.MaxInterval)
	if p.Attempts == 0 && !p.Unlimited {
		return // never rescheduled: nothing else matters
	}

	functions := []string{structs.RescheduleConstant, structs.RescheduleExponential,
		structs.RescheduleFibonacci}
	f.CheckOneOf("delay_function", p.DelayFunction, functions)
	f.Require(p.Delay > 0, "delay must be above zero")
	f.Require(p.Unlimited || p.Interval > 0, "interval must be above zero")
	f.Require(!p.DelaysGrow() || p.MaxDelay >= p.Delay,
		"max_delay %s must not be below delay %s", p.MaxDelay, p.Delay)
}

// checkSum checks the resources of one allocation in all.
func checkSum(f field.Errors, r structs.Resources) {
	f.Require(r.CPU <= structs.MaxCPU, "its tasks request more than %d MHz of cpu in sum", structs.MaxCPU)
	f.Require(r.MemoryMB <= structs.MaxMemoryMB, "its tasks request more than %d MiB of memory in sum",
		structs.MaxMemoryMB)
	f.Require(r.DiskMB <= structs.MaxDiskMB, "it requests more than %d MiB of disk in sum", structs.MaxDiskMB)
}
