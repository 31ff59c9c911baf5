package invariant

import (
	"berth/scheduler/schedtest"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// bounded gives the default namespace, which has a volume and five allocations in a calm fleet, a quota.
func bounded(b quota.Bounds) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		schedtest.Do(f, namespace.QuotaPut, &quota.SpecPutRequest{Quota: &quota.Spec{
			Name:   "small",
			Limits: []*quota.Limit{{Region: structs.DefaultRegion, RegionLimit: &b}},
		}})
		schedtest.Do(f, namespace.Apply, &cluster.NamespaceApplyRequest{
			Definition: &cluster.Namespace{Name: structs.DefaultNamespace, Quota: "small"},
		})
	}
}

// full bounds what a calm fleet has, so that nothing is left.
var full = bounded(quota.Bounds{Allocations: 5, Storage: &quota.StorageBound{Volumes: 1}})

var bounds = []breach{
	{rule: "no namespace has more than its quota", name: "allocations", want: "6 allocations of 5", fleet: full,
		view: func(v *View) { v.twin("sys", 0) }},
	{rule: "no namespace has more than its quota", name: "one is to end", fleet: full, view: func(v *View) {
		v.twin("sys", 0, stopped)
	}},
	{rule: "no namespace has more than its quota", name: "one has ended", fleet: full, view: func(v *View) {
		v.twin("sys", 0, failed)
	}},
	{rule: "no namespace has more than its quota", name: "cpu", want: "MHz of 1000000",
		fleet: bounded(quota.Bounds{CPU: 1_000_000}), view: func(v *View) {
			v.twin("sys", 0, func(a *structs.Allocation) { a.Resources = &structs.Resources{CPU: 1_000_000} })
		}},
	{rule: "no namespace has more than its quota", name: "memory", want: "MiB of 1000000",
		fleet: bounded(quota.Bounds{MemoryMB: 1_000_000}), view: func(v *View) {
			v.twin("sys", 0, func(a *structs.Allocation) { a.Resources = &structs.Resources{MemoryMB: 1_000_000} })
		}},
	{rule: "no namespace has more than its quota", name: "devices", want: "1 devices of -1",
		fleet: bounded(quota.Bounds{Devices: []*quota.DeviceBound{{Name: "gpu", Count: -1}}}),
		view:  func(v *View) { v.twin("sys", 0, withDevice) }},
	{rule: "no namespace has more than its quota", name: "volumes", want: "1 volumes of -1",
		fleet: bounded(quota.Bounds{Storage: &quota.StorageBound{Volumes: -1}})},
	{rule: "nothing is missing although there is capacity", name: "its quota is used up",
		fleet: bounded(quota.Bounds{Allocations: 4}), view: func(v *View) {
			v.remove(v.ByJob[jobKey("web")][1])
		}},
	{rule: "nothing is missing although there is capacity", name: "its quota has one left", fleet: full,
		want: "has no allocation g[", view: func(v *View) {
			v.remove(v.ByJob[jobKey("web")][1])
		}},
}
