package explain

import (
	"berth/scheduler/schedtest"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// quotaSituations are those of a namespace whose quota has no place.
var quotaSituations = []situation{
	{name: "a quota without place for all", nodes: 1, make: after(
		bounded(quota.Bounds{CPU: 250}), running(3, ofCPU(100)))},
	{name: "a quota that allows nothing", nodes: 1, make: after(
		bounded(quota.Bounds{Allocations: -1}), placed(1))},
	{name: "a quota that another job uses up", nodes: 1, make: after(
		bounded(quota.Bounds{Allocations: 1}), dbRuns, placed(1))},
	{name: "a quota with place again", nodes: 1, calm: true, make: after(
		bounded(quota.Bounds{Allocations: 1}), dbRuns, placed(1), bounded(quota.Bounds{Allocations: 2}),
		(*schedtest.Fleet).Schedule, (*schedtest.Fleet).Tick)},
}

// bounded gives the default namespace the quota team, or changes its bounds.
func bounded(b quota.Bounds) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		schedtest.Do(f, namespace.QuotaPut, &quota.SpecPutRequest{Quota: &quota.Spec{
			Name:   "team",
			Limits: []*quota.Limit{{Region: "global", RegionLimit: &b}},
		}})
		schedtest.Do(f, namespace.Apply, &cluster.NamespaceApplyRequest{
			Definition: &cluster.Namespace{Name: structs.DefaultNamespace, Quota: "team"},
		})
	}
}

func ofCPU(mhz int) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) { g.Tasks[0].Resources.CPU = mhz }
}

func dbRuns(f *schedtest.Fleet) {
	f.Register(schedtest.Job("db", structs.JobService, 1))
	f.Schedule()
	f.Tick()
}
