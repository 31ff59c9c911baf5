package explain

import (
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// nodeSituations are those of nodes that take no allocations, and of allocations that end or start slowly.
var nodeSituations = []situation{
	{name: "nodes that take no allocations for three reasons", nodes: 4, make: after(
		nodeStatus("n0", structs.NodeDown), draining1, ineligible("n2"),
		node("n3", func(n *structs.Node) { n.Datacenter = "dc2" }), placed(1))},
	{name: "a node that starts", nodes: 1, make: after(nodeStatus("n0", structs.NodeInit), placed(1))},
	{name: "more nodes that are down than are named", nodes: 12, make: after(allDown, placed(1))},
	{name: "a system job without a node", nodes: 1, make: after(ineligible("n0"), func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("web", structs.JobSystem, 1))
		f.Schedule()
	})},
	{name: "a volume that no node reaches", nodes: 1, make: after(volume(inZone("a")),
		placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume whose only node was deleted", nodes: 2, make: after(
		instanceInZone("n0"), instanceInZone("n1"), volume(inZone("n1")), deleted("n1"), placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume whose only node was deleted, beside a node that is down", nodes: 2, make: after(
		instanceInZone("n0"), instanceInZone("n1"), volume(inZone("n1")), deleted("n1"),
		nodeStatus("n0", structs.NodeDown), placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "volume: its only node was deleted", nodes: 2, volume: "vol", make: after(instanceInZone("n0"),
		instanceInZone("n1"), volume(inZone("n1")), deleted("n1"))},
	{name: "a volume under lease with tasks that no guard ends", nodes: 1, make: after(
		volume(onNodeLoss(structs.LossLease)), unguarded("n0"), placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume that no node reaches, and that another job has", nodes: 1, make: after(
		volume(inZone("a")), runsDB(onNode("n0")), dbShares, placed(1, usesVolume(structs.CSIMultiNodeMultipleWriter)))},
	{name: "a volume that one of two allocations lacks", nodes: 1, make: after(firstVolume,
		placed(2, ownVolume), claimOwn)},
	{name: "a volume that a lost one of three allocations has, while an older one runs", nodes: 3, make: after(
		threeVolumes, running(3, updates(0), ownVolume), claimOwn, allHealthy, nodeStatus("n0", structs.NodeDown),
		placed(3, updates(0), ownVolume, setsVersion))},
	{name: "a volume for another access mode, and that another job has", nodes: 1, make: after(volume(forOneWriter),
		other(structs.CSISingleNodeWriter), placed(1, usesVolume(structs.CSIMultiNodeMultipleWriter)))},
	{name: "a volume that is being created", nodes: 1, make: after(creating,
		placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume that is being deleted", nodes: 1, make: after(deleting,
		placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume that is to be deleted", nodes: 1, make: after(marked,
		placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "volume: it is to be deleted", nodes: 1, volume: "vol", make: after(marked, wait(time.Minute))},
	{name: "a volume of a plugin that does not run", nodes: 1, make: after(volume(func(v *structs.CSIVolume) {
		v.PluginID = "nfs"
	}), placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume of a plugin without a controller", nodes: 1, make: after(attachingPlugin, sickController,
		volume(), placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume that a lost node holds", nodes: 2, make: after(volume(),
		runsDB(both(usesVolume(structs.CSISingleNodeWriter), onNode("n0"))), dbClaims,
		nodeStatus("n0", structs.NodeDown), placed(1, usesVolume(structs.CSISingleNodeWriter)),
		wait(time.Minute))},

	{name: "an allocation that stops slowly beside others", nodes: 1, make: after(running(2, killTimeout),
		scaledToOne, stops)},
	{name: "an allocation that stops after a delay", nodes: 1, make: after(running(2, shutdownDelay),
		placed(1, shutdownDelay), stops)},
	{name: "an allocation whose tasks have ended after a delay", nodes: 1, make: after(running(2, shutdownDelay),
		placed(1, shutdownDelay), reportStopping(structs.TaskDead))},
	{name: "a stopped job on a node that is down", nodes: 1, calm: true, make: after(running(1), stopped,
		nodeStatus("n0", structs.NodeDown))},
	{name: "a stopped job whose node does not release its volume", nodes: 1, make: after(volume(),
		running(1, usesVolume(structs.CSISingleNodeWriter)), webClaims, stopped, (*schedtest.Fleet).Tick,
		wait(time.Minute))},
	{name: "a stopped job whose node does not run the plugin of its volume", nodes: 1, make: after(volume(),
		running(1, usesVolume(structs.CSISingleNodeWriter)), webClaims, stopped, (*schedtest.Fleet).Tick,
		sickInstance)},
	{name: "a stopped job whose node is down and has its volume", nodes: 1, make: after(volume(),
		running(1, usesVolume(structs.CSISingleNodeWriter)), webClaims, stopped, (*schedtest.Fleet).Tick,
		nodeStatus("n0", structs.NodeDown), wait(time.Minute))},
	{name: "an allocation whose predecessor on another node has its volume still", nodes: 2, make: after(volume(),
		running(1, usesVolume(structs.CSIMultiNodeMultipleWriter), onNode("n0")), webClaimsShared, movesToN1, wait(time.Minute))},
	{name: "a task after a prestart task that runs", nodes: 1, make: after(running(1, prestart), initRuns)},
	{name: "a prestart task that fails again and again", nodes: 1, make: after(placed(1, prestart), initRestarts)},
	{name: "a task that waits for a key of its template", nodes: 1, make: after(placed(1),
		report(structs.AllocPending, "", map[string]*structs.TaskState{"t": {
			State:  structs.TaskPending,
			Events: event(structs.TaskEventTemplate, "Missing: key app/config of Consul"),
		}}))},
	{name: "a task that waits for its token of Consul", nodes: 1, make: after(placed(1),
		report(structs.AllocPending, noToken, waitsForToken))},
	{name: "a running allocation with a task that waits for its token", nodes: 1, make: after(placed(1),
		report(structs.AllocRunning, "", waitsForToken))},
	{name: "a batch job whose task failed for good", nodes: 1, make: after(batch, (*schedtest.Fleet).Schedule,
		report(structs.AllocFailed, "", exitCode), (*schedtest.Fleet).Schedule)},
	{name: "an evaluation that was unblocked", nodes: 1, make: after(ineligible("n0"), placed(1), eligible)},

	{name: "volume: only a node that is not eligible reaches it", nodes: 2, volume: "vol",
		make: after(instanceInZone("n0"), volume(inZone("n0")), ineligible("n0"), placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "volume: another job that waits for it", nodes: 2, volume: "vol", make: after(volume(),
		other(structs.CSISingleNodeWriter), placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "volume: it is being created", nodes: 1, volume: "vol", make: creating},
	{name: "volume: it is being deleted", nodes: 1, volume: "vol", make: deleting},
	{name: "volume: the deletion fails", nodes: 1, volume: "vol", make: after(deleting, deletionFails)},
}

func draining1(f *schedtest.Fleet) {
	schedtest.Do(f, state.NodeDrain, &structs.NodeDrainRequest{
		NodeID:       "n1",
		DrainSpec:    &structs.DrainSpec{},
		WriteOptions: f.Now(),
	})
}

func allDown(f *schedtest.Fleet) {
	for n := range state.Nodes(f.Store.Read()) {
		nodeStatus(n.ID, structs.NodeDown)(f)
	}
}

func eligible(f *schedtest.Fleet) {
	schedtest.Do(f, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       "n0",
		Eligibility:  structs.NodeEligible,
		WriteOptions: f.Now(),
	})
}

func unguarded(node string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		f.Node(node, func(n *structs.Node) {
			n.Attributes[structs.AttrUnguarded("exec")] = "this node does not find all processes of its tasks by a cgroup"
		})
	}
}

func inZone(zone string) func(*structs.CSIVolume) {
	return func(v *structs.CSIVolume) {
		v.Topologies = []*structs.CSITopology{{Segments: map[string]string{"zone": zone}}}
	}
}

func firstVolume(f *schedtest.Fleet) {
	f.Volume("vol[0]")
}

func threeVolumes(f *schedtest.Fleet) {
	twoVolumes(f)
	f.Volume("vol[2]")
}

func forOneWriter(v *structs.CSIVolume) {
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}}
}

func dbShares(f *schedtest.Fleet) {
	f.Claim(f.Allocs("db")[0], "vol", structs.CSIMultiNodeMultipleWriter)
}

func deleting(f *schedtest.Fleet) {
	volume()(f)
	schedtest.Do(f, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "vol", WriteOptions: f.Now()})
}

func marked(f *schedtest.Fleet) {
	volume(func(v *structs.CSIVolume) { v.Reclaim = storage.ReclaimDelete })(f)
	schedtest.Do(f, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "vol", WriteOptions: f.Now()})
}

func deletionFails(f *schedtest.Fleet) {
	outcome(f, "delete", failure(f, "the volume has snapshots"), false)
}

func dbClaims(f *schedtest.Fleet) {
	f.Claim(f.Allocs("db")[0], "vol", structs.CSISingleNodeWriter)
}

func webClaimsShared(f *schedtest.Fleet) {
	f.Claim(f.Allocs("web")[0], "vol", structs.CSIMultiNodeMultipleWriter)
}

func killTimeout(g *structs.TaskGroup) { g.Tasks[0].KillTimeout = 30 * time.Second }

func shutdownDelay(g *structs.TaskGroup) { g.Tasks[0].ShutdownDelay = 5 * time.Minute }

func scaledToOne(f *schedtest.Fleet) { placed(1, killTimeout)(f) }

// stops lets the node report that it stops the allocations that are to stop.
func stops(f *schedtest.Fleet) { reportStopping(structs.TaskRunning)(f) }

// reportStopping lets the node report a state of the task of the allocations that are to stop.
func reportStopping(task string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		for a := range state.AllocsByJob(f.Store.Read(), structs.DefaultNamespace, "web") {
			if a.ServerTerminal() {
				f.Report(a, &structs.AllocClientUpdate{
					ClientStatus: structs.AllocRunning,
					TaskStates: map[string]*structs.TaskState{"t": {
						State:  task,
						Events: event("Killing", "Sent interrupt. Waiting 30s before force killing"),
					}},
				})
			}
		}
	}
}

// movesToN1 replaces the allocation of the job web by one on another node, which reports nothing.
func movesToN1(f *schedtest.Fleet) {
	placed(1, usesVolume(structs.CSIMultiNodeMultipleWriter), onNode("n1"))(f)
	f.Stuck[f.Allocs("web")[0].ID] = true
	f.Tick()
}

// prestart adds the task init, before the others.
func prestart(g *structs.TaskGroup) {
	g.Tasks = append(g.Tasks, &structs.Task{
		Name:      "init",
		Driver:    "exec",
		Lifecycle: &structs.TaskLifecycle{Hook: structs.LifecyclePrestart},
		Resources: &structs.Resources{CPU: 10, MemoryMB: 10},
	})
}

func initRuns(f *schedtest.Fleet) {
	e := event(structs.TaskEventStarted, "Task started by client")
	reportTasks(f, structs.AllocRunning, structs.TaskRunning, e)
}

func initRestarts(f *schedtest.Fleet) {
	e := event(structs.TaskEventRestarting, "Task restarting in 15s")
	e[0].Time = 2
	reportTasks(f, structs.AllocPending, structs.TaskPending, e)
}

// reportTasks reports the state of the task init, and that the task t has not started.
func reportTasks(f *schedtest.Fleet, status, init string, events []*structs.TaskEvent) {
	report(status, "", map[string]*structs.TaskState{
		"t":    {State: structs.TaskPending, Events: event(structs.TaskEventReceived, "Task received by client")},
		"init": {State: init, StartedAt: time.Unix(1, 0), Events: events},
	})(f)
}

// instanceInZone puts the instance of a node's plugin into a zone with the name of the node.
func instanceInZone(id string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		i := schedtest.Instance(id)
		i.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{"zone": id}}
		schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:       id,
			Upserts:      []*structs.CSIPluginInstance{i},
			WriteOptions: f.Now(),
		})
	}
}

func deleted(id string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		schedtest.Do(f, state.NodeDeregister, &structs.NodeDeregisterRequest{
			NodeIDs:      []string{id},
			WriteOptions: f.Now(),
		})
	}
}
