package simulation

import (
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// operations are the random steps. A step that is there several times is more frequent.
var operations = []func(*world){
	(*world).registerJob, (*world).registerJob, (*world).registerJob, (*world).registerJob,
	(*world).scaleJob, (*world).stopJob, (*world).revertJob, (*world).dispatchJob, (*world).stopAlloc,
	(*world).operateDeployment, (*world).operateDeployment,
	(*world).drainNode, (*world).drainNode, (*world).changeEligibility,
	(*world).cutNode, (*world).cutNode, (*world).resetNode, (*world).changeDevices,
	(*world).changeLeader,
	(*world).configure,
	(*world).raiseQuota, (*world).changeVolumes,
	(*world).waitLong,
	(*world).makeToken, (*world).useTokens,
	(*world).stepClocks, (*world).changeMark, (*world).changeMark,
}

// step performs a random operation and lets some time pass.
func (w *world) step() {
	oneOf(w, operations...)(w)
	time.Sleep(time.Duration(w.Int64N(int64(oneOf(w, time.Second, 10*time.Second, time.Minute)))))
}

// waitLong lets deadlines pass.
func (w *world) waitLong() { time.Sleep(3 * time.Minute) }

// anyJob returns the type and the ID of a random job.
func (w *world) anyJob() (kind, id string) {
	kind = oneOf(w, structs.JobService, structs.JobService, structs.JobService,
		structs.JobBatch, structs.JobSystem, structs.JobSysBatch)
	return kind, oneOf(w, jobIDs[kind]...)
}

func (w *world) registerJob() {
	if w.chance(20) {
		w.register(thePlugin(structs.JobDefaultPriority))
		return
	}
	kind, id := w.anyJob()
	w.register(w.randomJob(kind, id))
}

func (w *world) register(j *structs.Job) {
	err := operate(w, structs.JobRegister, &structs.JobRegisterRequest{Job: j})
	if err == nil {
		row := state.Job(w.store.Read(), j.Namespace, j.ID)
		w.record("register %s %s, version %d, priority %d, counts %v", j.Type, j.ID, row.Version, j.Priority, counts(j))
	}
}

func counts(j *structs.Job) (all []int) {
	for _, g := range j.TaskGroups {
		all = append(all, g.Count)
	}
	return all
}

// of returns the options of a request about a job.
func of(job string) structs.WriteOptions { return structs.WriteOptions{Namespace: namespaceOf(job)} }

func (w *world) scaleJob() {
	id := oneOf(w, jobIDs[structs.JobService]...)
	count := w.Int64N(5)
	w.record("scale %s to %d", id, count)
	_ = operate(w, structs.JobScale, &structs.JobScaleRequest{
		JobID:        id,
		Group:        "g0",
		Count:        &count,
		WriteOptions: of(id),
	})
}

func (w *world) stopJob() {
	_, id := w.anyJob()
	purge := w.chance(3)
	w.record("stop %s, purge %v", id, purge)
	_ = operate(w, structs.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        id,
		Purge:        purge,
		WriteOptions: of(id),
	})
}

func (w *world) revertJob() {
	_, id := w.anyJob()
	j := state.Job(w.store.Read(), namespaceOf(id), id)
	if j == nil || j.Version == 0 {
		return
	}
	version := w.Uint64N(j.Version)
	w.record("revert %s to version %d", id, version)
	_ = operate(w, structs.JobRevert, &structs.JobRevertRequest{
		JobID:        id,
		JobVersion:   version,
		WriteOptions: of(id),
	})
}

func (w *world) dispatchJob() {
	w.record("dispatch disp-sum")
	_ = operate(w, structs.JobDispatch, &structs.JobDispatchRequest{JobID: "disp-sum"})
}

func (w *world) stopAlloc() {
	_, id := w.anyJob()
	for a := range state.LiveAllocsByJob(w.store.Read(), namespaceOf(id), id) {
		w.record("stop allocation %s of %s", structs.ShortID(a.ID), id)
		_ = operate(w, structs.AllocStop, &structs.AllocStopRequest{AllocID: a.ID})
		return
	}
}

func (w *world) operateDeployment() {
	for d := range state.ActiveDeployments(w.store.Read()) {
		switch w.IntN(6) {
		case 0:
			w.record("fail the deployment of %s", d.JobID)
			_ = operate(w, structs.DeploymentFail, &structs.DeploymentFailRequest{DeploymentID: d.ID})
		case 1, 2:
			w.pause(d, d.Status == structs.DeploymentRunning)
		case 3:
			w.promote(d)
		}
	}
}

func (w *world) pause(d *structs.Deployment, pause bool) {
	w.record("pause the deployment of %s: %v", d.JobID, pause)
	_ = operate(w, structs.DeploymentPause, &structs.DeploymentPauseRequest{DeploymentID: d.ID, Pause: pause})
}

func (w *world) promote(d *structs.Deployment) {
	w.record("promote the deployment of %s", d.JobID)
	_ = operate(w, structs.DeploymentPromote, &structs.DeploymentPromoteRequest{DeploymentID: d.ID, All: true})
}

// drainNode drains a node, or ends its drain.
func (w *world) drainNode() {
	n := oneOf(w, w.nodes...)
	req := &structs.NodeDrainRequest{NodeID: n.id}
	if w.chance(3) {
		req.MarkEligible = true
		w.record("end the drain of %s", n.id)
	} else {
		req.DrainSpec = &structs.DrainSpec{
			Deadline:         oneOf(w, 0, -1, 30*time.Second, 5*time.Minute, 20*time.Minute),
			IgnoreSystemJobs: w.chance(2),
			Force:            w.chance(2),
		}
		w.record("drain %s: %+v", n.id, *req.DrainSpec)
	}
	_ = operate(w, structs.NodeDrain, req)
}

func (w *world) changeEligibility() {
	w.setEligibility(oneOf(w, w.nodes...), oneOf(w, structs.NodeEligible, structs.NodeIneligible))
}

func (w *world) setEligibility(n *node, eligibility string) {
	w.record("%s becomes %s", n.id, eligibility)
	_ = operate(w, structs.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:      n.id,
		Eligibility: eligibility,
	})
}

// cutNode cuts or heals the connection of a node.
func (w *world) cutNode() {
	n := oneOf(w, w.nodes...)
	cut := n.link() != nil
	w.record("cut %s: %v", n.id, cut)
	n.cut(cut)
}

// resetNode takes the power from a node and gives it back later.
func (w *world) resetNode() {
	n := oneOf(w, w.nodes...)
	w.record("power off %s", n.id)
	n.powerOff()
	time.Sleep(time.Duration(w.Int64N(int64(30 * time.Second))))
	w.record("power on %s", n.id)
	n.powerOn()
}

// changeDevices changes the health of a device, and the node tells the servers.
func (w *world) changeDevices() {
	n := oneOf(w, w.nodes...)
	n.mu.Lock()
	row := n.row.Copy()
	resources := *row.NodeResources
	if len(resources.Devices) > 0 {
		group := *resources.Devices[0]
		first := *group.Instances[0]
		first.Healthy = !first.Healthy
		group.Instances = []*structs.NodeDevice{&first, group.Instances[1]}
		resources.Devices = []*structs.NodeDeviceResource{&group}
		w.record("device g0 of %s is healthy: %v", row.ID, first.Healthy)
	}
	row.NodeResources = &resources
	n.row = row
	n.mu.Unlock()
	if n.link() == nil {
		return
	}
	propose(w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		Node:         row.Copy(),
		CSI:          n.instances(),
		WriteOptions: w.now(),
	})
}

// changeLeader ends the leadership, and begins the next after a while.
func (w *world) changeLeader() {
	w.record("the leader is lost")
	w.stopLoops()
	time.Sleep(time.Duration(w.Int64N(int64(3 * time.Second))))
	w.lead()
	w.record("a leader is elected")
}

// configure changes which types of jobs may displace others, and the algorithm.
func (w *world) configure() {
	w.setConfig(cluster.SchedulerConfiguration{
		SchedulerAlgorithm: oneOf(w, cluster.AlgorithmBinpack, cluster.AlgorithmSpread),
		PreemptionConfig: cluster.PreemptionConfig{
			ServiceSchedulerEnabled:  w.chance(2),
			BatchSchedulerEnabled:    w.chance(2),
			SystemSchedulerEnabled:   w.chance(2),
			SysBatchSchedulerEnabled: w.chance(2),
		},
	})
}

func (w *world) setConfig(c cluster.SchedulerConfiguration) {
	w.record("preemption: %+v", c.PreemptionConfig)
	_ = operate(w, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: c})
}

// registerVolumes registers all volumes.
func (w *world) registerVolumes() {
	for _, id := range csiVolumes {
		propose(w, fsm.VolumePut, w.aVolume(structs.DefaultNamespace, id))
	}
}

// aVolume returns the payload that registers a volume.
func (w *world) aVolume(namespace, id string) *structs.CSIVolumeRegisterRequest {
	plugin := diskPlugin
	if !usesPlugin(id) {
		plugin = sharePlugin
	}
	return &structs.CSIVolumeRegisterRequest{
		WriteOptions: w.now(),
		Volumes: []*structs.CSIVolume{{
			ID: id, Namespace: namespace,
			CSIVolumeSpec: structs.CSIVolumeSpec{Name: id, PluginID: plugin, ExternalID: id},
		}},
	}
}
