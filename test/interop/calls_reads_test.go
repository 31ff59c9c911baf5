package interop

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/nomad/api/contexts"

	public "github.com/hashicorp/nomad/api"
)

// readCalls list and read what the fixture has.
var readCalls = []callRow{
	{"Jobs.List", func(f *callFixture) error {
		jobs, meta, err := f.c.Jobs().List(nil)
		return check(err, func() bool { return len(jobs) == 2 && meta.LastIndex > 0 && meta.KnownLeader }, jobs)
	}},
	{"Jobs.ListOptions", func(f *callFixture) error {
		jobs, _, err := f.c.Jobs().ListOptions(&public.JobListOptions{Fields: &public.JobListFields{Meta: true}},
			&public.QueryOptions{Prefix: f.job})
		return check(err, func() bool { return len(jobs) == 1 && jobs[0].ID == f.job }, jobs)
	}},
	{"EventStream.Stream", func(f *callFixture) error {
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		defer cancel()
		topics := map[public.Topic][]string{public.TopicAllocation: {f.alloc.ID}}
		events, err := f.c.EventStream().Stream(ctx, topics, f.alloc.CreateIndex, nil)
		if err != nil {
			return err
		}
		first := <-events
		return check(first.Err, func() bool {
			alloc, err := first.Events[0].Allocation()
			return err == nil && first.Index == f.alloc.CreateIndex && alloc.ID == f.alloc.ID
		}, first)
	}},
	{"Jobs.PrefixList", func(f *callFixture) error {
		jobs, _, err := f.c.Jobs().PrefixList(f.job[:3])
		return check(err, func() bool { return len(jobs) == 1 && jobs[0].ID == f.job }, jobs)
	}},
	{"Jobs.Info", func(f *callFixture) error {
		job, _, err := f.c.Jobs().Info(f.job, nil)
		return check(err, func() bool { return *job.ID == f.job && *job.Status == "running" }, job)
	}},
	{"Jobs.Summary", func(f *callFixture) error {
		s, _, err := f.c.Jobs().Summary(f.job, nil)
		return check(err, func() bool { return s.Summary["g"].Running == 1 }, s)
	}},
	{"Jobs.Allocations", func(f *callFixture) error {
		allocs, _, err := f.c.Jobs().Allocations(f.job, true, nil)
		return check(err, func() bool { return len(allocs) == 1 && allocs[0].ID == f.alloc.ID }, allocs)
	}},
	{"Jobs.Evaluations", func(f *callFixture) error {
		evals, _, err := f.c.Jobs().Evaluations(f.job, nil)
		return check(err, func() bool { return len(evals) > 0 && evals[0].JobID == f.job }, evals)
	}},
	{"Jobs.Services", func(f *callFixture) error {
		services, _, err := f.c.Jobs().Services(f.job, nil)
		return f.checkInstances(services, err)
	}},
	{"Services.List", func(f *callFixture) error {
		services, _, err := f.c.Services().List(nil)
		return check(err, func() bool {
			return len(services) == 1 && services[0].Namespace == "default" && len(services[0].Services) == 1 &&
				services[0].Services[0].ServiceName == "calls" &&
				slices.Equal(services[0].Services[0].Tags, []string{"a", "b"})
		}, services)
	}},
	{"Services.Get", func(f *callFixture) error {
		services, _, err := f.c.Services().Get("calls", nil)
		return f.checkInstances(services, err)
	}},
	{"Services.Delete", func(f *callFixture) error {
		services, _, err := f.c.Services().Get("calls", nil)
		if err != nil || len(services) != 1 {
			return fmt.Errorf("got %v: %w", services, err)
		}
		_, err = f.c.Services().Delete("calls", services[0].ID, nil)
		return checkRejected(err, "which would register it again")
	}},
	{"Allocations.List", func(f *callFixture) error {
		allocs, _, err := f.c.Allocations().List(nil)
		return check(err, func() bool { return len(allocs) == 2 }, allocs)
	}},
	{"Allocations.PrefixList", func(f *callFixture) error {
		allocs, _, err := f.c.Allocations().PrefixList(f.alloc.ID[:8])
		return check(err, func() bool { return len(allocs) == 1 && allocs[0].ID == f.alloc.ID }, allocs)
	}},
	{"Allocations.Info", func(f *callFixture) error {
		a, _, err := f.c.Allocations().Info(f.alloc.ID, nil)
		return check(err, func() bool { return *a.Job.ID == f.job && a.NodeID == f.nodeID }, a)
	}},
	{"Allocations.Services", func(f *callFixture) error {
		services, _, err := f.c.Allocations().Services(f.alloc.ID, nil)
		return f.checkInstances(services, err)
	}},
	{"Allocations.Checks", func(f *callFixture) error {
		checks, err := f.c.Allocations().Checks(f.alloc.ID, nil)
		return check(err, func() bool {
			for id, c := range checks {
				return c.ID == id && c.Check == "true" && c.Service == "calls" && c.Status == "success" &&
					c.Output == "fine\n" && c.Mode == "healthiness" && c.Timestamp > 0
			}
			return false
		}, checks)
	}},
	{"Evaluations.List", func(f *callFixture) error {
		evals, _, err := f.c.Evaluations().List(nil)
		return check(err, func() bool { return len(evals) >= 2 }, evals)
	}},
	{"Evaluations.PrefixList", func(f *callFixture) error {
		evals, _, err := f.c.Evaluations().PrefixList(f.alloc.EvalID[:8])
		return check(err, func() bool { return len(evals) == 1 && evals[0].ID == f.alloc.EvalID }, evals)
	}},
	{"Evaluations.Info", func(f *callFixture) error {
		e, _, err := f.c.Evaluations().Info(f.alloc.EvalID, nil)
		return check(err, func() bool { return e.JobID == f.job && e.Status == "complete" }, e)
	}},
	{"Evaluations.Allocations", func(f *callFixture) error {
		allocs, _, err := f.c.Evaluations().Allocations(f.alloc.EvalID, nil)
		return check(err, func() bool { return len(allocs) == 1 && allocs[0].ID == f.alloc.ID }, allocs)
	}},
	{"Evaluations.Count", func(f *callFixture) error {
		n, meta, err := f.c.Evaluations().Count(&public.QueryOptions{Filter: `JobID == "` + f.job + `"`})
		return check(err, func() bool { return n.Count > 0 && meta.LastIndex > 0 }, n)
	}},
	{"Search.PrefixSearch", func(f *callFixture) error {
		found, _, err := f.c.Search().PrefixSearch(f.job, contexts.Jobs, nil)
		return check(err, func() bool { return len(found.Matches[contexts.Jobs]) == 1 }, found)
	}},
	{"Search.FuzzySearch", func(f *callFixture) error {
		found, _, err := f.c.Search().FuzzySearch("all", contexts.All, nil)
		return check(err, func() bool { return found.Matches[contexts.Jobs][0].ID == f.job }, found)
	}},
	{"Nodes.List", func(f *callFixture) error {
		nodes, _, err := f.c.Nodes().List(nil)
		return check(err, func() bool { return len(nodes) == 1 && nodes[0].Drivers["exec"].Healthy }, nodes)
	}},
	{"Nodes.PrefixList", func(f *callFixture) error {
		nodes, _, err := f.c.Nodes().PrefixList(f.nodeID[:8])
		return check(err, func() bool { return len(nodes) == 1 && nodes[0].ID == f.nodeID }, nodes)
	}},
	{"Nodes.PrefixListOpts", func(f *callFixture) error {
		nodes, _, err := f.c.Nodes().PrefixListOpts(f.nodeID[:8], &public.QueryOptions{AllowStale: true})
		return check(err, func() bool { return len(nodes) == 1 && nodes[0].ID == f.nodeID }, nodes)
	}},
	{"Nodes.Info", func(f *callFixture) error {
		n, _, err := f.c.Nodes().Info(f.nodeID, nil)
		return check(err, func() bool { return n.Status == "ready" && n.CSINodePlugins[f.plugin] != nil }, n)
	}},
	{"Nodes.Allocations", func(f *callFixture) error {
		allocs, _, err := f.c.Nodes().Allocations(f.nodeID, nil)
		return check(err, func() bool { return len(allocs) == 2 && allocs[0].NodeID == f.nodeID }, allocs)
	}},
	{"Nodes.Stats", func(f *callFixture) error {
		stats, err := f.c.Nodes().Stats(f.nodeID, nil)
		return check(err, func() bool { return stats.Memory.Total > 0 && len(stats.CPU) > 0 }, stats)
	}},
	{"CSIPlugins.List", func(f *callFixture) error {
		plugins, _, err := f.c.CSIPlugins().List(nil)
		return check(err, func() bool { return len(plugins) == 1 && plugins[0].ID == f.plugin }, plugins)
	}},
	{"CSIPlugins.Info", func(f *callFixture) error {
		p, _, err := f.c.CSIPlugins().Info(f.plugin, nil)
		return check(err, func() bool { return p.Nodes[f.nodeID].Healthy && len(p.Allocations) == 1 }, p)
	}},
	{"Regions.List", func(f *callFixture) error {
		regions, err := f.c.Regions().List()
		return check(err, func() bool { return len(regions) == 1 && regions[0] == "global" }, regions)
	}},
	{"Status.Leader", func(f *callFixture) error {
		leader, err := f.c.Status().Leader()
		return check(err, func() bool { return leader != "" }, leader)
	}},
	{"Status.RegionLeader", func(f *callFixture) error {
		leader, err := f.c.Status().RegionLeader("global")
		return check(err, func() bool { return leader != "" }, leader)
	}},
	{"Status.Peers", func(f *callFixture) error {
		peers, err := f.c.Status().Peers()
		return check(err, func() bool { return len(peers) == 1 }, peers)
	}},
}
