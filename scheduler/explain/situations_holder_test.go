package explain

import (
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// holderSituations are those in which others have what the job needs, and those of the filters of plugins.
var holderSituations = []situation{
	{name: "a job that may not displace another", nodes: 1, make: after(filled(20), important(70))},
	{name: "a job whose priority exceeds by too little", nodes: 1, make: after(filled(65), important(70))},
	{name: "a job that displaces nobody in vain", nodes: 1, make: after(preempting, filled(20),
		placed(1, func(g *structs.TaskGroup) { g.Tasks[0].Resources.CPU = 200_000 }))},
	{name: "a port that another job has", nodes: 1, make: after(node("n0", hasPorts), runsDB(staticPort),
		placed(1, staticPort))},
	{name: "a port of a job that is being stopped", nodes: 1, make: after(node("n0", hasPorts),
		runsDB(staticPort), stopDB, placed(1, staticPort))},
	{name: "a port that allocations of the same job have", nodes: 1, make: after(node("n0", hasPorts),
		running(1, staticPort), placed(2, staticPort))},
	{name: "a port of a job that stops after a delay", nodes: 1, make: after(node("n0", hasPorts),
		runsDB(both(staticPort, func(g *structs.TaskGroup) { g.Tasks[0].ShutdownDelay = time.Minute })), stopDB,
		placed(1, staticPort))},
	{name: "a volume that another group of the same job has", nodes: 1, make: after(volume(), inTwoGroups)},
	{name: "a volume that the job has from before its stop", nodes: 1, make: after(volume(),
		running(1, usesVolume(structs.CSISingleNodeWriter)), webClaims, stopped,
		placed(1, usesVolume(structs.CSISingleNodeWriter)), newestClaims)},
	{name: "a device that another job has", nodes: 2, make: after(node("n0", hasGPU), runsDB(oneGPU),
		placed(1, oneGPU))},
	{name: "nodes without the plugin", nodes: 1, make: after(volume(), sickInstance,
		placed(1, usesVolume(structs.CSIMultiNodeMultipleWriter)))},
	{name: "a plugin that leaves its node", nodes: 1, make: after(volume(), lostPlugin,
		placed(1, usesVolume(structs.CSIMultiNodeMultipleWriter)))},
	{name: "a plugin at the limit of its volumes", nodes: 1, make: after(oneVolumeOnly, volume(),
		other(structs.CSISingleNodeWriter), func(f *schedtest.Fleet) { f.Volume("vol2") }, placed(1, usesVol2))},
	{name: "a plugin at its limit with an attachment that nobody uses", nodes: 1,
		make: after(oneVolumeOnly, unusedAttachment, func(f *schedtest.Fleet) { f.Volume("vol2") },
			placed(1, usesVol2))},
	{name: "a job that may not displace others, which are too few", nodes: 1, make: after(filled(20),
		func(f *schedtest.Fleet) {
			j := schedtest.Job("web", structs.JobService, 1, func(g *structs.TaskGroup) {
				g.Tasks[0].Resources.CPU = 200_000
			})
			j.Priority = 70
			f.Register(j)
			f.Schedule()
		})},
	{name: "a job that may not displace another with its port", nodes: 1,
		make: after(node("n0", hasPorts), mayNotDisplace(staticPort, staticPort))},
	{name: "a job that may not displace another with its device", nodes: 1,
		make: after(node("n0", hasGPU), mayNotDisplace(oneGPU, oneGPU))},
	{name: "a job that needs a device of an important one", nodes: 1, make: after(node("n0", hasGPU),
		runsDB(oneGPU), mayNotDisplace(func(*structs.TaskGroup) {}, oneGPU))},
	{name: "a job that needs a port of an important one", nodes: 1, make: after(node("n0", hasPorts),
		runsDB(staticPort), mayNotDisplace(func(*structs.TaskGroup) {}, staticPort))},
	{name: "a job that would fit on a node that it may not use", nodes: 2, make: after(
		runsDB(both(mostCPU, onNode("n0"))), placed(1, mostCPU, onNode("n0")))},
	{name: "a plugin at its limit on one of two nodes", nodes: 2, make: after(oneVolumeOnly, twoVolumesOnN1,
		volume(), runsDB(both(usesVolume(structs.CSIMultiNodeMultipleWriter), onNode("n0"))),
		func(f *schedtest.Fleet) {
			f.Volume("vol2")
			f.Register(schedtest.Job("other", structs.JobService, 1,
				usesVolume(structs.CSIMultiNodeMultipleWriter), onNode("n1")))
			f.Schedule()
		}, placed(1, usesVol2, onNode("n0")))},
	{name: "a canary that needs the port of its own group", nodes: 1,
		make: after(node("n0", hasPorts), canary(staticPort))},
	{name: "a canary that needs the device of its own group", nodes: 1,
		make: after(node("n0", hasGPU), canary(oneGPU))},
	{name: "a canary that needs the host volume of its own group", nodes: 1, make: after(
		node("n0", func(n *structs.Node) {
			n.HostVolumes = map[string]*structs.HostVolume{"disk": {Path: "/srv"}}
		}), canary(hostVolume))},
	{name: "a canary that needs the port of an older one, not of another canary", nodes: 1, make: after(
		node("n0", hasPorts), node("n1", hasPorts), running(1, staticPort, updates(0), onNode("n1")),
		placed(1, staticPort, updates(2), func(g *structs.TaskGroup) { g.Tasks[0].Resources.CPU++ }))},
	{name: "a canary that needs the port of another job", nodes: 1, make: after(node("n0", hasPorts),
		runsDB(staticPort), running(1, updates(0)), placed(1, staticPort, updates(1)))},
	{name: "a canary that needs a host without its own group", nodes: 1,
		make: canary(constraint("", structs.ConstraintDistinctHosts, ""))},
	{name: "too few values for distinct_property", nodes: 1, make: placed(2,
		constraint("${node.datacenter}", structs.ConstraintDistinctProperty, ""))},
}

// inTwoGroups registers the job web with two groups that use the volume, of which only one can have it.
func inTwoGroups(f *schedtest.Fleet) {
	j := schedtest.Job("web", structs.JobService, 1, usesVolume(structs.CSISingleNodeWriter))
	second := *j.TaskGroups[0]
	second.Name = "h"
	j.TaskGroups = append(j.TaskGroups, &second)
	f.Register(j)
	f.Schedule()
	webClaims(f)
	f.Tick()
}

// newestClaims makes the allocation of web that is to run claim the volume.
func newestClaims(f *schedtest.Fleet) {
	for _, a := range f.Allocs("web") {
		if !a.ServerTerminal() {
			f.Claim(a, "vol", structs.CSISingleNodeWriter)
		}
	}
}

func runsDB(edit func(*structs.TaskGroup)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("db", structs.JobService, 1, edit))
		f.Schedule()
		f.Tick()
	}
}

func stopDB(f *schedtest.Fleet) {
	schedtest.Do(f, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID: "db",
		Eval: &structs.Evaluation{
			ID:          "eval-stop-db",
			JobID:       "db",
			TriggeredBy: structs.TriggerJobDeregister,
			Status:      structs.EvalPending,
		},
		WriteOptions: f.Now(),
	})
	f.Schedule()
}

func hasGPU(n *structs.Node) {
	n.NodeResources.Devices = []*structs.NodeDeviceResource{{
		Vendor:    "acme",
		Type:      "gpu",
		Name:      "x1",
		Instances: []*structs.NodeDevice{{ID: "gpu-0", Healthy: true}},
	}}
}

func oneGPU(g *structs.TaskGroup) {
	g.Tasks[0].Resources.Devices = []*structs.RequestedDevice{{Name: "gpu", Count: 1}}
}

func onNode(id string) func(*structs.TaskGroup) {
	return constraint("${node.unique.id}", "=", id)
}

func both(edits ...func(*structs.TaskGroup)) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		for _, edit := range edits {
			edit(g)
		}
	}
}

func twoVolumesOnN1(f *schedtest.Fleet) { takesVolumes(f, "n1", 2) }

func oneVolumeOnly(f *schedtest.Fleet) { takesVolumes(f, "n0", 1) }

// takesVolumes makes a node report that it takes so many volumes of the plugin.
func takesVolumes(f *schedtest.Fleet, node string, most int64) {
	i := schedtest.Instance(node)
	i.NodeInfo.MaxVolumes = most
	schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       node,
		Upserts:      []*structs.CSIPluginInstance{i},
		WriteOptions: f.Now(),
	})
}

func usesVol2(g *structs.TaskGroup) {
	usesVolume(structs.CSISingleNodeWriter)(g)
	g.Volumes["data"].Source = "vol2"
}

// mayNotDisplace runs a less important job low, and registers the job web, which may not
// displace it.
func mayNotDisplace(low, web func(*structs.TaskGroup)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		j := schedtest.Job("low", structs.JobService, 1, low)
		j.Priority = 20
		f.Register(j)
		f.Schedule()
		j = schedtest.Job("web", structs.JobService, 1, web)
		j.Priority = 55
		f.Register(j)
		f.Tick()
	}
}

// canary runs the job web, and registers a version of it with a canary.
func canary(edit func(*structs.TaskGroup)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		running(1, edit, updates(0))(f)
		placed(1, edit, updates(1), func(g *structs.TaskGroup) { g.Tasks[0].Resources.CPU++ })(f)
	}
}

// unusedAttachment attaches the volume vol to n0 for an allocation that has ended.
func unusedAttachment(f *schedtest.Fleet) {
	instance := schedtest.Instance("n0")
	instance.NodeInfo.MaxVolumes = 1
	instance.RequiresControllerPlugin = true
	controller := schedtest.Instance("n0")
	controller.Kind = structs.CSIKindController
	controller.NodeInfo = nil
	controller.RequiresControllerPlugin = true
	controller.ControllerInfo = &structs.CSIControllerInfo{SupportsAttachDetach: true}
	schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n0",
		Upserts:      []*structs.CSIPluginInstance{instance, controller},
		WriteOptions: f.Now(),
	})
	volume()(f)
	other(structs.CSISingleNodeWriter)(f)
	a := f.Allocs("db")[0]
	stopDB(f)
	f.Tick()
	f.Release(a, "vol")
}

// lostPlugin makes the plugin on n0 one of an allocation that the servers do not know any more.
func lostPlugin(f *schedtest.Fleet) {
	i := schedtest.Instance("n0")
	i.AllocID = "lost"
	schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n0",
		Upserts:      []*structs.CSIPluginInstance{i},
		WriteOptions: f.Now(),
	})
}
