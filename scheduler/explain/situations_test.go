package explain

import (
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

var situations = []situation{
	{name: "a job that runs", nodes: 1, calm: true, make: running(2)},
	{name: "a job with the count 0", nodes: 1, calm: true, make: placed(0)},
	{name: "a stopped job", nodes: 1, calm: true, make: after(running(1), stopped, (*schedtest.Fleet).Tick)},
	{name: "a stopped job whose task does not end", nodes: 1, make: after(running(1), stopped)},
	{name: "an evaluation that is pending", nodes: 1, make: func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("web", structs.JobService, 1))
	}},
	{name: "evaluations that are paused", nodes: 1, make: func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("web", structs.JobService, 1))
		config := *state.SchedulerConfig(f.Store.Read())
		config.PauseEvalBroker = true
		schedtest.Do(f, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{
			Config:       config,
			WriteOptions: f.Now(),
		})
	}},
	{name: "an evaluation that failed", nodes: 1, make: func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("web", structs.JobService, 1))
		e := state.Eval(f.Store.Read(), "eval-web").Copy()
		e.Status = structs.EvalFailed
		e.StatusDescription = "the plan was rejected 5 times"
		schedtest.Do(f, state.EvalUpdate, &structs.EvalUpdateRequest{
			Evals:        []*structs.Evaluation{e},
			WriteOptions: f.Now(),
		})
	}},
	{name: "a cluster without a node", nodes: 0, make: placed(3)},
	{name: "nodes that are not eligible", nodes: 2, make: after(ineligible("n0"), ineligible("n1"), placed(1))},
	{name: "a node that drains", nodes: 1, make: after(draining, placed(1))},
	{name: "nodes that are down", nodes: 2, make: after(nodeStatus("n0", structs.NodeDown),
		nodeStatus("n1", structs.NodeDown), placed(1))},
	{name: "nodes of another datacenter", nodes: 1, make: after(node("n0", func(n *structs.Node) {
		n.Datacenter = "dc2"
	}), placed(1))},
	{name: "nodes of another pool", nodes: 1, make: after(node("n0", func(n *structs.Node) {
		n.NodePool = "gpu"
	}), placed(1))},
	{name: "nodes without the driver", nodes: 1, make: placed(1, func(g *structs.TaskGroup) {
		g.Tasks[0].Driver = "docker"
	})},
	{name: "a driver that is not healthy", nodes: 1, make: after(node("n0", func(n *structs.Node) {
		n.Drivers["exec"] = &structs.DriverInfo{Detected: true, HealthDescription: "no cgroups"}
	}), placed(1))},
	{name: "a constraint that no node meets", nodes: 2,
		make: placed(1, constraint("${attr.kernel.name}", "=", "plan9"))},
	{name: "too few nodes for distinct_hosts", nodes: 1, make: placed(2, constraint("", "distinct_hosts", ""))},
	{name: "no memory left", nodes: 1, make: placed(1, func(g *structs.TaskGroup) {
		g.Tasks[0].Resources.MemoryMB = 200000
	})},
	{name: "a host network that no node has", nodes: 1, make: placed(1, func(g *structs.TaskGroup) {
		g.Networks = []*structs.NetworkResource{{
			Mode:          structs.NetworkModeHost,
			ReservedPorts: []structs.Port{{Label: "http", Value: 80, HostNetwork: structs.DefaultHostNetwork}},
		}}
	})},
	{name: "a network mode that no node has", nodes: 1, make: placed(1, func(g *structs.TaskGroup) {
		g.Networks = []*structs.NetworkResource{{Mode: structs.NetworkModeBridge}}
	})},
	{name: "a device that no node has", nodes: 1, make: placed(1, func(g *structs.TaskGroup) {
		g.Tasks[0].Resources.Devices = []*structs.RequestedDevice{{Name: "gpu", Count: 1}}
	})},
	{name: "a host volume that no node offers", nodes: 1, make: placed(1, hostVolume)},
	{name: "a host volume with a writer", nodes: 1, make: after(node("n0", func(n *structs.Node) {
		n.HostVolumes = map[string]*structs.HostVolume{"disk": {Path: "/srv"}}
	}), func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("db", structs.JobService, 1, hostVolume))
		f.Schedule()
	}, placed(1, hostVolume))},
	{name: "a volume that does not exist", nodes: 1, make: placed(1, usesVolume(structs.CSISingleNodeWriter))},
	{name: "a volume that another job holds", nodes: 2, make: after(volume(), other(structs.CSISingleNodeWriter),
		placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume of a job that is being stopped", nodes: 2, make: after(volume(),
		other(structs.CSISingleNodeWriter), stopDB, placed(1, usesVolume(structs.CSISingleNodeWriter)), webClaims)},
	{name: "a volume whose creation fails", nodes: 1, make: after(creationFails,
		placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a volume whose creation was rejected", nodes: 1, make: after(creationRejected,
		placed(1, usesVolume(structs.CSISingleNodeWriter)))},
	{name: "a placed allocation without a report", nodes: 1, make: placed(1)},
	{name: "an allocation that waits for a predecessor", nodes: 1, make: after(placed(1),
		report(structs.AllocPending, "waits for allocation 0123abcd to end", nil))},
	{name: "an allocation that downloads", nodes: 1, make: after(placed(1),
		report(structs.AllocPending, "", map[string]*structs.TaskState{"t": {
			State:  structs.TaskPending,
			Events: event("Downloading Artifacts", "downloads https://example.com/a.zip"),
		}}))},
	{name: "a task that restarts again and again", nodes: 1, make: after(running(1),
		report(structs.AllocRunning, "", map[string]*structs.TaskState{"t": {
			State:     structs.TaskPending,
			StartedAt: time.Unix(1_700_000_000, 0),
			Events:    event(structs.TaskEventRestarting, "Task restarting in 15s"),
		}}))},
	{name: "a failed allocation that is replaced later", nodes: 1, make: after(running(1, rescheduled(5)),
		report(structs.AllocFailed, "", exitCode), (*schedtest.Fleet).Schedule)},
	{name: "a failed allocation that nothing replaces", nodes: 1, make: after(running(1, rescheduled(0)),
		report(structs.AllocFailed, "", exitCode), (*schedtest.Fleet).Schedule)},
	{name: "a failed allocation of several tasks", nodes: 1, make: after(running(1, prestart, rescheduled(0)),
		report(structs.AllocFailed, "", map[string]*structs.TaskState{
			"init": {State: structs.TaskDead, StartedAt: time.Unix(1, 0), Events: event("Terminated", "Exit Code: 0")},
			"t":    exitCode["t"],
		}), (*schedtest.Fleet).Schedule)},
	{name: "a failed allocation whose task has never started", nodes: 1, make: after(running(1, rescheduled(0)),
		report(structs.AllocFailed, "", map[string]*structs.TaskState{"t": {
			State:  structs.TaskDead,
			Failed: true,
			Events: event("Not Restarting", "command \"x\" not found on this machine"),
		}}), (*schedtest.Fleet).Schedule)},
	{name: "an allocation on a node that is down", nodes: 1, make: after(running(1, constraint("${node.unique.id}",
		"=", "n0")), nodeStatus("n0", structs.NodeDown), wait(time.Minute))},
	{name: "a plugin that is not healthy", nodes: 1, make: after(running(1, func(g *structs.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: structs.CSIPluginNode}
	}), sickInstance)},
	{name: "a claim in the queue", nodes: 1, make: after(volume(), placed(1, usesVolume(structs.CSISingleNodeWriter)),
		func(f *schedtest.Fleet) {
			f.Register(schedtest.Job("db", structs.JobService, 1))
			f.Schedule()
			f.Claim(f.Allocs("db")[0], "vol", structs.CSISingleNodeWriter)
			f.Claim(f.Allocs("web")[0], "vol", structs.CSISingleNodeWriter)
		})},
	{name: "an update of a system job", nodes: 3, make: func(f *schedtest.Fleet) {
		for cpu := range 2 {
			job := schedtest.Job("web", structs.JobSystem, 1, updates(0))
			job.TaskGroups[0].Tasks[0].Resources.CPU = 10 + cpu
			f.Register(job)
			f.Tick()
			f.Tick()
		}
	}},
	{name: "a deployment that goes on", nodes: 1, make: after(running(2, updates(0)), firstIsHealthy)},
	{name: "a deployment that is paused", nodes: 1, make: after(running(2, updates(0)),
		setDeployment(structs.DeploymentPaused, structs.DeploymentIsPaused))},
	{name: "a deployment that failed", nodes: 1, make: after(running(2, updates(0)),
		setDeployment(structs.DeploymentFailed, structs.DeploymentFailedByAlloc), (*schedtest.Fleet).Schedule)},
	{name: "canaries that wait for their promotion", nodes: 1, make: after(running(2), func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("web", structs.JobService, 2, updates(1), func(g *structs.TaskGroup) {
			g.Tasks[0].Env = map[string]string{"VERSION": "2"}
		}))
		f.Schedule()
		f.Tick()
	}, canaryIsHealthy, (*schedtest.Fleet).Schedule)},

	{name: "volume: nothing waits", nodes: 1, volume: "vol", calm: true,
		make: after(volume(), other(structs.CSISingleNodeWriter))},
	{name: "volume: the creation fails", nodes: 1, volume: "vol", make: creationFails},
	{name: "volume: the creation was rejected", nodes: 1, volume: "vol", make: creationRejected},
	{name: "volume: its plugin is unknown", nodes: 1, volume: "vol", make: volume(func(v *structs.CSIVolume) {
		v.PluginID = "nfs"
	})},
	{name: "volume: its plugin is not healthy", nodes: 1, volume: "vol", make: after(volume(), sickInstance)},
	{name: "volume: its plugin's node is down", nodes: 1, volume: "vol",
		make: after(volume(), nodeStatus("n0", structs.NodeDown))},
	{name: "volume: claims in the queue", nodes: 1, volume: "vol", make: after(volume(),
		other(structs.CSISingleNodeWriter), func(f *schedtest.Fleet) {
			f.Register(schedtest.Job("web", structs.JobService, 2))
			f.Schedule()
			for _, a := range f.Allocs("web") {
				f.Claim(a, "vol", structs.CSISingleNodeWriter)
			}
		}, wait(time.Minute))},
	{name: "volume: an ended allocation whose node does not release it", nodes: 1, volume: "vol",
		make: after(volume(), other(structs.CSISingleNodeWriter), dbEnds, wait(time.Minute))},
	{name: "volume: an ended allocation whose node is down", nodes: 2, volume: "vol",
		make: after(volume(), other(structs.CSISingleNodeWriter), func(f *schedtest.Fleet) {
			nodeStatus(f.Allocs("db")[0].NodeID, structs.NodeDown)(f)
			f.Schedule()
		}, wait(time.Minute))},
	{name: "volume: its file system turned read-only", nodes: 1, volume: "vol",
		make: after(volume(), other(structs.CSISingleNodeWriter), turnReadOnly, wait(time.Minute))},
	{name: "volume: it is to grow", nodes: 1, volume: "vol", make: after(volume(func(v *structs.CSIVolume) {
		v.Capacity = 1 << 20
		v.RequestedCapacityMin = 1 << 20
	}), volume(func(v *structs.CSIVolume) {
		v.RequestedCapacityMin = 2 << 20
	}))},
}

var exitCode = map[string]*structs.TaskState{"t": {
	State:      structs.TaskDead,
	Failed:     true,
	StartedAt:  time.Unix(1_700_000_000, 0),
	FinishedAt: time.Unix(1_700_000_000, 0),
	Events:     event(structs.TaskEventTerminated, "Exit Code: 1"),
}}

func rescheduled(attempts int) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		g.ReschedulePolicy = &structs.ReschedulePolicy{
			Attempts:      attempts,
			Interval:      time.Hour,
			Delay:         time.Minute,
			DelayFunction: structs.RescheduleConstant,
		}
	}
}

func node(id string, edits ...func(*structs.Node)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) { f.Node(id, edits...) }
}

func ineligible(id string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		schedtest.Do(f, state.NodeEligibility, &structs.NodeEligibilityRequest{
			NodeID:       id,
			Eligibility:  structs.NodeIneligible,
			WriteOptions: f.Now(),
		})
	}
}

func draining(f *schedtest.Fleet) {
	schedtest.Do(f, state.NodeDrain, &structs.NodeDrainRequest{
		NodeID:       "n0",
		DrainSpec:    &structs.DrainSpec{},
		WriteOptions: f.Now(),
	})
}

func sickInstance(f *schedtest.Fleet) {
	i := schedtest.Instance("n0")
	i.Healthy = false
	i.HealthDescription = "the socket does not answer"
	for _, a := range f.Allocs("web") {
		i.AllocID = a.ID
	}
	schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n0",
		Upserts:      []*structs.CSIPluginInstance{i},
		WriteOptions: f.Now(),
	})
}

// outcome records the outcome of a controller call for the volume.
func outcome(f *schedtest.Fleet, op string, failed *structs.OperationError, final bool) {
	row := csi.Volume(f.Store.Read(), structs.DefaultNamespace, "vol")
	schedtest.Do(f, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "vol",
		Op:           op,
		RowIndex:     row.CreateIndex,
		Err:          failed,
		Final:        final,
		WriteOptions: f.Now(),
	})
}

func creating(f *schedtest.Fleet) {
	f.Volume("vol", inState(structs.VolumeCreating, nil))
}

func creationFails(f *schedtest.Fleet) {
	creating(f)
	outcome(f, "create", &structs.OperationError{
		Message:   "the backend does not answer",
		Kind:      structs.KindUnavailable,
		Attempts:  1,
		Time:      f.Clock.UnixNano(),
		RetryTime: f.Clock.Add(8 * time.Second).UnixNano(),
	}, false)
}

func creationRejected(f *schedtest.Fleet) {
	creating(f)
	outcome(f, "create", &structs.OperationError{
		Message:  "the size is not a multiple of 4096",
		Kind:     structs.KindInvalid,
		Attempts: 1,
		Time:     f.Clock.UnixNano(),
	}, true)
}

func dbEnds(f *schedtest.Fleet) {
	f.Report(f.Allocs("db")[0], &structs.AllocClientUpdate{ClientStatus: structs.AllocComplete})
}

func turnReadOnly(f *schedtest.Fleet) {
	a := f.Allocs("db")[0]
	key := structs.CSIClaimKey{Namespace: structs.DefaultNamespace, VolumeID: "vol", AllocID: a.ID}
	dbEnds(f)
	schedtest.Do(f, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:         a.NodeID,
		Claims:         []structs.CSIClaimKey{key},
		TurnedReadOnly: []structs.CSIClaimKey{key},
		WriteOptions:   f.Now(),
	})
}

func updates(canaries int) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		u := structs.DefaultUpdateStrategy()
		u.Canary = canaries
		g.Update = &u
	}
}

func setDeployment(status, description string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		d := state.LatestDeployment(f.Store.Read(), structs.DefaultNamespace, "web")
		schedtest.Do(f, state.DeploymentStatus, &structs.DeploymentStatusRequest{
			DeploymentStatusUpdate: structs.DeploymentStatusUpdate{
				DeploymentID:      d.ID,
				Status:            status,
				StatusDescription: description,
			},
			WriteOptions: f.Now(),
		})
	}
}

func firstIsHealthy(f *schedtest.Fleet) {
	a := f.Allocs("web")[0]
	f.Report(a, &structs.AllocClientUpdate{
		ClientStatus:     structs.AllocRunning,
		DeploymentID:     a.DeploymentID,
		DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)},
	})
}

func canaryIsHealthy(f *schedtest.Fleet) {
	for _, a := range f.Allocs("web") {
		if a.DeploymentStatus.IsCanary() {
			f.Report(a, &structs.AllocClientUpdate{
				ClientStatus:     structs.AllocRunning,
				DeploymentID:     a.DeploymentID,
				DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)},
			})
		}
	}
}
