package explain

import (
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
	{name: "a device that another job has", nodes: 2, make: after(node("n0", hasGPU), runsDB(oneGPU),
		placed(1, oneGPU))},
	{name: "nodes without the plugin", nodes: 1, make: after(volume(), sickInstance,
		placed(1, usesVolume(structs.CSIMultiNodeMultipleWriter)))},
	{name: "a plugin at the limit of its volumes", nodes: 1, make: after(oneVolumeOnly, volume(),
		other(structs.CSISingleNodeWriter), func(f *schedtest.Fleet) { f.Volume("vol2") }, placed(1, usesVol2))},
	{name: "too few values for distinct_property", nodes: 1, make: placed(2,
		constraint("${node.datacenter}", structs.ConstraintDistinctProperty, ""))},
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

// oneVolumeOnly makes n0 report that it takes one volume of the plugin.
func oneVolumeOnly(f *schedtest.Fleet) {
	i := schedtest.Instance("n0")
	i.NodeInfo.MaxVolumes = 1
	schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n0",
		Upserts:      []*structs.CSIPluginInstance{i},
		WriteOptions: f.Now(),
	})
}

func usesVol2(g *structs.TaskGroup) {
	usesVolume(structs.CSISingleNodeWriter)(g)
	g.Volumes["data"].Source = "vol2"
}
