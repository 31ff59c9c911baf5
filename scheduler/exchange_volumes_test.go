package scheduler

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// writesVolume makes a job write a volume together with others.
func writesVolume(source string) func(*structs.Job) {
	return volume(source, structs.CSIMultiNodeMultipleWriter, false)
}

// Two jobs would exchange their room on a full node. Neither stops an allocation while no node with room can
// mount the volume of its successor.
func TestUpdate_StopsNoneWithoutAPluginForItsVolume(t *testing.T) {
	zone := &structs.CSITopology{Segments: map[string]string{"zone": "z1"}}
	for name, edit := range map[string]func(*structs.CSIPluginInstance){
		"an unhealthy one": func(i *structs.CSIPluginInstance) { i.Healthy = false },
		"one that leaves":  func(i *structs.CSIPluginInstance) { i.AllocID = "gone" },
		"one that reaches other volumes": func(i *structs.CSIPluginInstance) {
			i.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{"zone": "z2"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			unfit := half("hostpath", structs.CSIKindNode)
			unfit.NodeInfo.AccessibleTopology = zone
			edit(unfit)
			w.node(aNode("n1"), unfit)
			fit := half("hostpath", structs.CSIKindNode)
			fit.NodeInfo.AccessibleTopology = zone
			small := aNode("n2")
			small.NodeResources.CPU.CpuShares = 1
			w.node(small, fit)
			w.volume("db", "hostpath", zone)
			w.job(aJob("a", structs.JobBatch, cpu(400)))
			w.run("a")
			w.job(aJob("b", structs.JobBatch, cpu(600)))
			w.run("b")
			w.job(aJob("b", structs.JobBatch, cpu(400), writesVolume("db")))
			w.run("b")
			w.job(aJob("a", structs.JobBatch, cpu(600), writesVolume("db")))
			if p := w.run("a"); len(p.Stop) > 0 {
				t.Errorf("the plan is %s", describe(p))
			}
		})
	}
}

// A plugin and a job with its volume would exchange their room on a full node. The plugin is not stopped
// first: the volume could not be mounted until it is back, and the job would have its room.
func TestUpdate_StopsNoPluginForItsVolume(t *testing.T) {
	memory := func(mb int) func(*structs.Job) {
		return func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = mb }
	}
	w := newFixture(t)
	n := aNode("n1")
	n.NodeResources.CPU.CpuShares = 1000
	n.NodeResources.Memory.MemoryMB = 1000
	w.node(n)
	w.job(csiJob(cpu(100), memory(500)))
	w.run("csi")
	plugin := w.allocs("csi")[0]
	w.client(plugin, structs.AllocRunning)
	w.csi("n1", halfOf(plugin.ID))
	w.volume("v", "p")
	w.job(aJob("db", structs.JobService, cpu(900), memory(500), writesVolume("v")))
	w.run("db")
	w.wantPlaced("db", "0@n1")
	w.job(aJob("db", structs.JobService, cpu(800), memory(900), writesVolume("v")))
	w.run("db")
	w.job(csiJob(cpu(200), memory(100)))
	if p := w.run("csi"); len(p.Stop) > 0 {
		t.Errorf("the plan is %s", describe(p))
	}
}

// An update waits for its node to release a volume, beside a job that is about to use its volume in another
// way. It stops nothing: the allocation that it replaces is not in the way.
func TestUpdate_StopsNoneAtTheLimitOfItsPlugin(t *testing.T) {
	w := newFixture(t)
	limited := half("hostpath", structs.CSIKindNode)
	limited.NodeInfo.MaxVolumes = 1
	w.node(aNode("n1"), limited)
	w.volume("db", "hostpath")
	w.volume("other", "hostpath")
	w.job(aJob("holder", structs.JobBatch, writesVolume("other")))
	w.run("holder")
	for _, id := range []string{"a", "b"} {
		w.job(aJob(id, structs.JobBatch))
		w.run(id)
	}
	do(w, state.JobRegister, &structs.JobRegisterRequest{
		Job:          aJob("b", structs.JobBatch, volume("db", structs.CSIMultiNodeReader, false)),
		Eval:         w.eval("b"),
		WriteOptions: w.now(),
	})
	w.job(aJob("a", structs.JobBatch, writesVolume("db")))
	if p := w.process(w.eval("a")); len(p.Stop) > 0 || len(p.Place) > 0 {
		t.Errorf("the plan is %s", describe(p))
	}
}
