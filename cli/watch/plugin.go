package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
)

// pluginTasks returns the tasks of an allocation that run CSI plugins.
func pluginTasks(job *structs.Job, a *structs.AllocListStub) []*structs.Task {
	group := job.Group(a.TaskGroup)
	if group == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(group.Tasks), func(t *structs.Task) bool {
		return t.CSIPluginConfig == nil
	})
}

// pluginHealthy reports whether the newest event on a plugin's health is that it is healthy.
func pluginHealthy(s *structs.TaskState) bool {
	if s == nil {
		return false
	}
	for _, e := range slices.Backward(s.Events) {
		switch e.Type {
		case structs.TaskEventPluginHealthy:
			return true
		case structs.TaskEventPluginUnhealthy:
			return false
		}
	}
	return false
}

// pluginsHealthy reports whether the servers know that all plugin instances of the allocations are healthy.
// If one is not, it waits up to ReadWait for a change.
func (w *Watch) pluginsHealthy(
	ctx context.Context, job *structs.Job, allocs []*structs.AllocListStub,
) (bool, error) {
	for _, id := range job.Plugins() {
		q := w.plugins[id]
		if q == nil {
			q = &api.Query{MaxWait: ReadWait}
			w.plugins[id] = q
		}

		plugin, meta, err := volumes.GetPlugin(ctx, w.API, id, q)
		if structs.IsKind(err, structs.KindNotFound) {
			plugin = &structs.CSIPlugin{ID: id}
			meta = &structs.QueryMeta{}
		} else if err != nil {
			return false, err
		}

		healthy, expected, why := ownInstances(job, allocs, plugin)
		if healthy == expected {
			q.MinIndex = 0
			continue
		}

		w.WriteChange("plugin "+id, "Plugin %q: healthy instances of this job: %d of %d%s",
			id, healthy, expected, why)
		return false, w.AwaitChange(ctx, q, meta)
	}
	return true, nil
}

// ownInstances counts the instances of a plugin that the allocations run. why explains the first unhealthy
// one.
func ownInstances(
	job *structs.Job, allocs []*structs.AllocListStub, p *structs.CSIPlugin,
) (healthy, expected int, why string) {
	for _, a := range allocs {
		for _, t := range pluginTasks(job, a) {
			if t.CSIPluginConfig.ID != p.ID || a.ClientTerminal() {
				continue
			}

			for _, kind := range t.CSIPluginConfig.Kinds() {
				expected++
				i := instanceOf(p, kind, a.NodeID)
				switch {
				case i != nil && i.AllocID == a.ID && i.Healthy:
					healthy++
				case why == "" && i != nil && i.AllocID == a.ID:
					why = fmt.Sprintf("; the %s on %s: %s",
						kind, NodeLabel(a), show.OneLine(i.HealthDescription))
				}
			}
		}
	}
	return healthy, expected, why
}

func instanceOf(p *structs.CSIPlugin, kind structs.CSIKind, node string) *structs.CSIInfo {
	if kind == structs.CSIKindController {
		return p.Controllers[node]
	}
	return p.Nodes[node]
}

// PluginProblems returns a row for each unhealthy instance of a plugin, for each call that an instance does
// not make, and for each allocation without a healthy instance, with the time and the cause.
func PluginProblems(p *structs.CSIPlugin) command.Grid {
	var rows command.Grid
	seen := map[string]bool{}
	halves := map[string]map[string]*structs.CSIInfo{
		"controller": p.Controllers,
		"node":       p.Nodes,
	}
	for half, infos := range halves {
		for node, i := range infos {
			seen[i.AllocID] = true
			if !i.Healthy {
				rows.AddRow(
					show.ShortID(node),
					half,
					show.ShortID(i.AllocID),
					show.Age(i.UpdateTime),
					show.OneLine(i.HealthDescription))
			}
			for _, c := range i.EndingCalls {
				rows.AddRow(
					show.ShortID(node),
					half,
					show.ShortID(i.AllocID),
					show.Age(c.Time),
					show.OneLine(c.Text()))
			}
		}
	}

	for _, a := range p.Allocations {
		if a == nil ||
			seen[a.ID] ||
			a.DesiredStatus != structs.AllocDesiredRun ||
			a.ClientStatus == structs.AllocComplete ||
			a.NextAllocation != "" {
			continue
		}

		since, cause := allocProblem(a)
		rows.AddRow(NodeLabel(a), "", show.ShortID(a.ID), show.Age(since), cause)
	}

	slices.SortFunc(rows, slices.Compare)
	return rows
}

// failureEvents lists the types of events that explain why a plugin does not serve.
var failureEvents = []string{
	structs.TaskEventTerminated,
	structs.TaskEventPluginUnhealthy,
	structs.TaskEventDriverFailure,
	structs.TaskEventSetupFailure,
	structs.TaskEventHookFailed,
	structs.TaskEventNotRestarting,
}

// allocProblem explains why an allocation has no healthy plugin. since is the time of the first event after
// the plugin was last healthy, in UnixNano.
func allocProblem(a *structs.AllocListStub) (since int64, cause string) {
	var last *structs.TaskEvent
	restarts := uint64(0)
	for _, s := range a.TaskStates {
		if s == nil {
			continue
		}

		restarts += s.Restarts
		for _, e := range s.Events {
			switch {
			case e.Type == structs.TaskEventPluginHealthy:
				since = 0
			case since == 0:
				since = e.Time
			}

			if slices.Contains(failureEvents, e.Type) &&
				(last == nil || e.Time >= last.Time) {
				last = e
			}
		}
	}

	cause = strings.TrimPrefix(LastEvent(a), ": ")
	if last != nil {
		cause = last.Type + ": " + show.OneLine(EventText(last))
		cause = strings.TrimSuffix(cause, ": ")
	}

	if restarts > 0 {
		cause = show.JoinComma(cause, "restarted "+show.Plural(int(restarts), "time"))
	}

	return cmp.Or(since, a.CreateTime), cause
}
