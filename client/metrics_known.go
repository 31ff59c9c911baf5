package client

import (
	"maps"
	"slices"
	"strings"

	"berth/internal/telemetry"
	"berth/structs"
)

// totals counts the allocations and the tasks of a node.
type totals struct {
	allocated structs.Resources
	allocs    map[string]int
	tasks     map[string]int
}

// known yields what the agent knows without measuring.
func (p *metricsPublisher) known(yield func(telemetry.Gauge)) {
	node := p.Node.Node()
	all := totals{
		allocs: map[string]int{"blocked": 0, "migrating": 0, "pending": 0, "running": 0, "terminal": 0},
		tasks:  map[string]int{structs.TaskPending: 0, structs.TaskRunning: 0, structs.TaskDead: 0},
	}
	for _, state := range p.Node.Allocs() {
		r, err := p.Node.Find(state.ID)
		if err != nil {
			continue // it has left the node meanwhile
		}
		alloc := r.Alloc()
		all.add(alloc, state, p.waits(alloc))
		if alloc.Job != nil {
			taskCounters(alloc, state, yield)
		}
	}

	of := metricLabels(node)
	gauge := func(name, help string, value int) {
		yield(telemetry.Gauge{Name: "nomad.client." + name, Help: help, Labels: of, Value: float64(value)})
	}
	free := node.Available().Sub(all.allocated)
	gauge("allocated.cpu", "MHz that allocations reserve", all.allocated.CPU)
	gauge("allocated.memory", "MiB of memory that allocations reserve", all.allocated.MemoryMB)
	gauge("allocated.disk", "MiB of disk that allocations reserve", all.allocated.DiskMB)
	gauge("unallocated.cpu", "MHz that no allocation reserves", free.CPU)
	gauge("unallocated.memory", "MiB of memory that no allocation reserves", free.MemoryMB)
	gauge("unallocated.disk", "MiB of disk that no allocation reserves", free.DiskMB)
	for state, n := range all.allocs {
		gauge("allocations."+state, "Allocations of the node that are "+state, n)
	}
	for state, n := range all.tasks {
		gauge("tasks."+state, "Tasks of the node that are "+state, n)
	}
}

// waits reports whether an allocation of the node that this one replaces has not ended yet.
func (p *metricsPublisher) waits(alloc *structs.Allocation) bool {
	before := append(slices.Clone(alloc.AwaitedAllocations), alloc.PreemptedAllocations...)
	before = append(before, alloc.PreviousAllocation)
	return slices.ContainsFunc(before, func(id string) bool {
		r, err := p.Node.Find(id)
		if err != nil {
			return false
		}
		select {
		case <-r.Unwound():
			return false
		default:
			return true
		}
	})
}

// add counts one allocation. Data is moved while an allocation waits for its predecessor, so migrating stays
// 0 and such an allocation is blocked.
func (t *totals) add(alloc *structs.Allocation, state *structs.AllocClientUpdate, waits bool) {
	for _, task := range state.TaskStates {
		t.tasks[task.State]++
	}
	switch state.ClientStatus {
	case structs.AllocPending:
		if waits {
			t.allocs["blocked"]++
		} else {
			t.allocs["pending"]++
		}
	case structs.AllocRunning:
		t.allocs["running"]++
	default:
		t.allocs["terminal"]++
		return
	}
	if alloc.Resources != nil {
		t.allocated = t.allocated.Add(*alloc.Resources)
	}
}

// taskLabels are the labels of a task in the dialect. A child of a job also has the labels of its parent.
func taskLabels(alloc *structs.Allocation, task string) map[string]string {
	l := map[string]string{
		"alloc_id":   alloc.ID,
		"job":        alloc.JobID,
		"namespace":  alloc.Namespace,
		"task":       task,
		"task_group": alloc.TaskGroup,
	}
	maps.Copy(l, telemetry.ChildLabels(alloc.JobID, alloc.Job.ParentID))
	return l
}

// taskCounters yields the events of the tasks of an allocation, in numbers since it came to the node.
func taskCounters(alloc *structs.Allocation, state *structs.AllocClientUpdate, yield func(telemetry.Gauge)) {
	for name, task := range state.TaskStates {
		of := taskLabels(alloc, name)
		count := func(event, help string, n float64) {
			name := "nomad.client.allocs." + event
			yield(telemetry.Gauge{Name: name, Help: help, Labels: of, Value: n, Counts: true})
		}
		started := 0.0
		if !task.StartedAt.IsZero() {
			started = 1 + float64(task.Restarts)
		}
		count("running", "Starts of a task", started)
		count("restart", "Restarts of a task", float64(task.Restarts))
		count("complete", "Ends of a task without a failure", number(task.Successful()))
		count("failed", "Ends of a task with a failure", number(task.State == structs.TaskDead && task.Failed))
		count("oom_killed", "Ends of a task for lack of memory, as far as its events tell", oomKills(task))
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// oomKills counts the events that tell of an end for lack of memory. A task keeps its newest events alone.
func oomKills(task *structs.TaskState) (n float64) {
	for _, e := range task.Events {
		if strings.EqualFold(e.Details["oom_killed"], "true") {
			n++
		}
	}
	return n
}
