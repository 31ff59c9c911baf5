package explain

import (
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// waitSituations are those of attachments, expansions, preemption and drains.
var waitSituations = []situation{
	{name: "an allocation that displaces another", nodes: 1, make: after(filled(20), preempting,
		important(70))},
	{name: "a job that was displaced", nodes: 1, make: after(preempting, important(20), (*schedtest.Fleet).Tick,
		filled(70), (*schedtest.Fleet).Schedule)},
	{name: "an allocation that waits for its turn in a drain", nodes: 1, make: after(running(2),
		wait(time.Minute), draining, moveOne)},

	{name: "volume: it is being attached", nodes: 1, volume: "vol", make: after(attachingPlugin, volume(),
		other(structs.CSISingleNodeWriter))},
	{name: "volume: the attachment fails", nodes: 1, volume: "vol", make: after(attachingPlugin, volume(),
		other(structs.CSISingleNodeWriter), attachment("attach", "the disk has 16 attachments"))},
	{name: "volume: the outcome of an attachment is unknown", nodes: 1, volume: "vol", make: after(
		attachingPlugin, volume(), other(structs.CSISingleNodeWriter), noteAttach, wait(time.Minute))},
	{name: "volume: the node of a call is down", nodes: 1, volume: "vol", make: after(
		attachingPlugin, volume(), other(structs.CSISingleNodeWriter), noteAttach,
		nodeStatus("n0", structs.NodeDown))},
	{name: "volume: it grows when its user has left", nodes: 1, volume: "vol", make: after(expandsOffline,
		sized(1<<20), other(structs.CSISingleNodeWriter), sized(2<<20))},
	{name: "volume: no controller to attach it", nodes: 1, volume: "vol", make: after(attachingPlugin, volume(),
		other(structs.CSISingleNodeWriter), sickController)},
	{name: "volume: the detachment fails", nodes: 1, volume: "vol", make: after(attachingPlugin, volume(),
		other(structs.CSISingleNodeWriter), attachment("attach", ""), dbEnds, dbReleases,
		attachment("detach", "the volume is busy"))},
	{name: "an allocation whose volume is being attached", nodes: 1, make: after(attachingPlugin, volume(),
		placed(1, usesVolume(structs.CSISingleNodeWriter)), webClaims)},
	{name: "a claim that waits for the detachment from another node", nodes: 2, make: after(attachingPlugin,
		volume(), other(structs.CSISingleNodeWriter), attachment("attach", ""), dbEnds, dbReleases,
		placed(1, usesVolume(structs.CSISingleNodeWriter), constraint("${node.unique.id}", "=", "n1")),
		webClaims)},
	{name: "an allocation that waits for the volume of its predecessor at the limit", nodes: 1, make: after(
		exchanges, webClaimsVol2)},
	{name: "volume: it waits for the detachment of another one at the limit", nodes: 1, volume: "vol2",
		make: after(exchanges, webClaimsVol2)},
	{name: "an allocation whose predecessor has the last volume of the node", nodes: 1, make: replacesVolume},
	{name: "volume: its controller fails to expand it", nodes: 1, volume: "vol", make: after(attachingPlugin,
		sized(1<<20), sized(2<<20), expandFails)},
	{name: "volume: a node fails to expand it", nodes: 1, volume: "vol", make: after(attachingPlugin,
		sized(1<<20), other(structs.CSISingleNodeWriter), attachment("attach", ""), nodeExpandFails)},
}

// filled runs the job db, which leaves little cpu of the node.
func filled(priority int) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		j := schedtest.Job("db", structs.JobService, 1, mostCPU)
		j.Priority = priority
		f.Register(j)
		f.Schedule()
		if priority < 50 {
			f.Tick()
		}
	}
}

// important registers the job web, which fits only without db.
func important(priority int) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		j := schedtest.Job("web", structs.JobService, 1, mostCPU)
		j.Priority = priority
		f.Register(j)
		f.Schedule()
	}
}

func mostCPU(g *structs.TaskGroup) { g.Tasks[0].Resources.CPU = 90_000 }

func preempting(f *schedtest.Fleet) {
	config := *state.SchedulerConfig(f.Store.Read())
	config.PreemptionConfig.ServiceSchedulerEnabled = true
	schedtest.Do(f, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{
		Config:       config,
		WriteOptions: f.Now(),
	})
}

func hasPorts(n *structs.Node) {
	n.NodeResources.NodeNetworks = []*structs.NodeNetworkResource{{
		Mode:   structs.NetworkModeHost,
		Device: "eth0",
		Addresses: []*structs.NodeNetworkAddress{
			{Family: structs.FamilyIPv4, Alias: structs.DefaultHostNetwork, Address: "10.0.0.1"},
		},
	}}
}

func staticPort(g *structs.TaskGroup) {
	g.Networks = []*structs.NetworkResource{{
		Mode:          structs.NetworkModeHost,
		ReservedPorts: []structs.Port{{Label: "http", Value: 80, HostNetwork: structs.DefaultHostNetwork}},
	}}
}

// moveOne lets the drain move one allocation, which finds no other place.
func moveOne(f *schedtest.Fleet) {
	schedtest.Do(f, state.AllocsMigrate, &structs.AllocsMigrateRequest{
		AllocIDs:     []string{f.Allocs("web")[0].ID},
		WriteOptions: f.Now(),
	})
	f.Schedule()
}

// attachingPlugin makes n0 run a controller that attaches and expands volumes.
func attachingPlugin(f *schedtest.Fleet) {
	reportController(f, true)
}

// expandsOffline makes n0 run a controller that expands volumes without users.
func expandsOffline(f *schedtest.Fleet) {
	c := schedtest.Instance("n0")
	c.Kind = structs.CSIKindController
	c.NodeInfo = nil
	c.ControllerInfo = &structs.CSIControllerInfo{SupportsExpand: true}
	c.ExpandsOffline = true
	schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n0",
		Upserts:      []*structs.CSIPluginInstance{c},
		WriteOptions: f.Now(),
	})
}

func sickController(f *schedtest.Fleet) {
	reportController(f, false)
}

func reportController(f *schedtest.Fleet, healthy bool) {
	c := schedtest.Instance("n0")
	c.Kind = structs.CSIKindController
	c.NodeInfo = nil
	c.ControllerInfo = &structs.CSIControllerInfo{SupportsAttachDetach: true, SupportsExpand: true}
	c.Healthy = healthy
	if !healthy {
		c.HealthDescription = "the socket does not answer"
	}
	for n := range state.Nodes(f.Store.Read()) {
		half := schedtest.Instance(n.ID)
		all := []*structs.CSIPluginInstance{half}
		if n.ID == "n0" {
			all = append(all, c)
		}
		for _, i := range all {
			i.RequiresControllerPlugin = true
		}
		half.NodeInfo.SupportsExpand = true
		schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:       n.ID,
			Upserts:      all,
			WriteOptions: f.Now(),
		})
	}
}

func failure(f *schedtest.Fleet, message string) *structs.OperationError {
	if message == "" {
		return nil
	}
	return &structs.OperationError{
		Message:   message,
		Kind:      structs.KindUnavailable,
		Attempts:  2,
		Time:      f.Clock.UnixNano(),
		RetryTime: f.Clock.Add(4 * time.Second).UnixNano(),
	}
}

// attachment records the outcome of a call for the attachment to n0, a success if failed is "".
func attachment(op, failed string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		schedtest.Do(f, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
			VolumeID:     "vol",
			NodeID:       "n0",
			Op:           op,
			Err:          failure(f, failed),
			WriteOptions: f.Now(),
		})
	}
}

func noteAttach(f *schedtest.Fleet) {
	row := csi.Attachment(f.Store.Read(), structs.DefaultNamespace, "vol", "n0")
	schedtest.Do(f, csi.CallNote, &structs.CSICallNote{
		VolumeID:     "vol",
		NodeID:       "n0",
		RowIndex:     row.CreateIndex,
		Call:         &structs.CSICall{NodeID: "n0", Op: "attach", Time: f.Clock.UnixNano()},
		WriteOptions: f.Now(),
	})
}

func dbReleases(f *schedtest.Fleet) {
	for a := range state.AllocsByJob(f.Store.Read(), structs.DefaultNamespace, "db") {
		f.Release(a, "vol")
	}
}

func webClaims(f *schedtest.Fleet) {
	f.Claim(f.Allocs("web")[0], "vol", structs.CSISingleNodeWriter)
}

// sized registers the volume with a size.
func sized(bytes int64) func(*schedtest.Fleet) {
	return volume(func(v *structs.CSIVolume) {
		v.Capacity = 1 << 20
		v.RequestedCapacityMin = bytes
	})
}

func expandFails(f *schedtest.Fleet) {
	outcome(f, "expand", failure(f, "the pool is full"), false)
}

// nodeExpandFails lets the controller expand the volume, and the node fail.
func nodeExpandFails(f *schedtest.Fleet) {
	sized(2 << 20)(f)
	row := csi.Volume(f.Store.Read(), structs.DefaultNamespace, "vol")
	schedtest.Do(f, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:              "vol",
		Op:              "expand",
		RowIndex:        row.CreateIndex,
		Capacity:        2 << 20,
		NodeExpandBytes: 2 << 20,
		WriteOptions:    f.Now(),
	})
	schedtest.Do(f, csi.NodeExpanded, &structs.CSINodeExpandOutcome{
		VolumeID:     "vol",
		AllocID:      f.Allocs("db")[0].ID,
		NodeID:       "n0",
		Bytes:        2 << 20,
		Err:          failure(f, "the file system does not grow"),
		WriteOptions: f.Now(),
	})
}

// replacesVolume updates the job web, which has the one volume that n0 takes, to another volume.
func replacesVolume(f *schedtest.Fleet) {
	after(attachingPlugin, oneVolumeOnly, volume(), placed(1, usesVolume(structs.CSISingleNodeWriter)),
		webClaims, attachment("attach", ""), (*schedtest.Fleet).Tick)(f)
	f.Volume("vol2")
	placed(1, usesVol2)(f)
}

// exchanges is replacesVolume up to the detach of the first volume.
func exchanges(f *schedtest.Fleet) {
	replacesVolume(f)
	for a := range state.AllocsByJob(f.Store.Read(), structs.DefaultNamespace, "web") {
		if a.ServerTerminal() {
			f.Report(a, &structs.AllocClientUpdate{ClientStatus: structs.AllocComplete})
			f.Release(a, "vol")
		}
	}
}

func webClaimsVol2(f *schedtest.Fleet) {
	f.Claim(f.Allocs("web")[0], "vol2", structs.CSISingleNodeWriter)
}
