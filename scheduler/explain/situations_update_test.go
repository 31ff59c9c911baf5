package explain

import (
	"berth/scheduler/schedtest"
	"berth/structs"
)

// updateSituations are those of updates that need what older allocations of their own job have.
var updateSituations = []situation{
	{name: "two groups that exchange their ports", nodes: 1, make: after(node("n0", hasPorts),
		twoThings(onPort(80), onPort(81)), allHealthy, twoThings(onPort(81), onPort(80)))},
	{name: "two groups that exchange their host volumes", nodes: 1, make: after(
		node("n0", func(n *structs.Node) {
			n.HostVolumes = map[string]*structs.HostVolume{"disk1": {Path: "/a"}, "disk2": {Path: "/b"}}
		}),
		twoThings(onDisk("disk1"), onDisk("disk2")), allHealthy,
		twoThings(onDisk("disk2"), onDisk("disk1")))},
	{name: "two groups that exchange their sizes", nodes: 1, make: after(
		twoThings(mostCPU, mostMemory), allHealthy, twoThings(mostMemory, mostCPU))},
	{name: "a shared volume in another mode", nodes: 1, make: after(
		volume(func(v *structs.CSIVolume) { v.RequestedCapabilities = nil }),
		running(2, updates(0), usesVolume(structs.CSIMultiNodeMultipleWriter)), allClaim, allHealthy,
		placed(2, updates(0), readsVolume))},
	{name: "a stopped allocation whose successor has no place", nodes: 1, make: after(
		running(2, twoAtOnce, sizedCPU(45_000)), allHealthy,
		running(2, twoAtOnce, sizedCPU(60_000)), allHealthy)},
}

// twoThings registers the job web with two groups.
func twoThings(first, second func(*structs.TaskGroup)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		j := schedtest.Job("web", structs.JobService, 1, updates(0), first)
		other := schedtest.Job("web", structs.JobService, 1, updates(0), second).TaskGroups[0]
		other.Name = "h"
		j.TaskGroups = append(j.TaskGroups, other)
		f.Register(j)
		f.Schedule()
		f.Tick()
	}
}

func onPort(number int) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		staticPort(g)
		g.Networks[0].ReservedPorts[0].Value = number
	}
}

func onDisk(source string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		hostVolume(g)
		for _, v := range g.Volumes {
			v.Source = source
		}
	}
}

func sizedCPU(mhz int) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) { g.Tasks[0].Resources.CPU = mhz }
}

func twoAtOnce(g *structs.TaskGroup) {
	updates(0)(g)
	g.Update.MaxParallel = 2
}

func allClaim(f *schedtest.Fleet) {
	for _, a := range f.Allocs("web") {
		f.Claim(a, "vol", structs.CSIMultiNodeMultipleWriter)
	}
}

func readsVolume(g *structs.TaskGroup) {
	usesVolume(structs.CSIMultiNodeReader)(g)
	g.Volumes["data"].ReadOnly = true
}

func mostMemory(g *structs.TaskGroup) { g.Tasks[0].Resources.MemoryMB = 90_000 }
