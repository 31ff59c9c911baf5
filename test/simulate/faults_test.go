package simulate

import (
	"strconv"
	"strings"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/defaults"
)

// faults are what may happen at any time. A fault that is there several times is more frequent.
var faults = []struct {
	name string
	do   func(*world, *node)
}{
	{"cut", (*world).cut}, {"cut", (*world).cut}, {"cut", (*world).cut},
	{"slow network", (*world).slowDown},
	{"agent", (*world).restartAgent}, {"agent", (*world).restartAgent},
	{"power", (*world).reset}, {"power", (*world).reset},
	{"death", (*world).kill},
	{"suspend", (*world).suspend},
	{"leader", (*world).loseLeader}, {"leader", (*world).loseLeader},
	{"device", (*world).changeDevice}, {"device", (*world).changeDevice},
	{"task", (*world).failTask},
	{"job", (*world).changeJob}, {"job", (*world).changeJob}, {"job", (*world).changeJob},
	{"fence order", (*world).orderFence},
	{"confirm", (*world).confirmLost}, {"confirm", (*world).confirmLost},
	{"longer lease", (*world).orderLease},
	{"copy", (*world).startCopy},
	{"clock", (*world).stepClock},
	{"clocks of all servers", (*world).stepServers},
}

// disturb lets faults happen until the quiet.
func (w *world) disturb() {
	if w.quiet {
		return
	}
	f := oneOf(w, faults...)
	n := oneOf(w, w.nodes...)
	w.note("fault: %s, %s", f.name, n.id)
	f.do(w, n)
	w.after(w.upTo(oneOf(w, 2*time.Second, 30*time.Second, 3*time.Minute)), w.disturb)
}

// lasting draws how long a fault lasts.
func (w *world) lasting() time.Duration {
	return w.upTo(oneOf(w, 5*time.Second, 30*time.Second, 2*time.Minute, 15*time.Minute))
}

// cut cuts a node off, in one direction or in both.
func (w *world) cut(n *node) {
	kind := w.IntN(3)
	n.cutOut = kind != 0
	n.cutIn = kind != 1
	w.after(w.lasting(), func() {
		n.cutOut = false
		n.cutIn = false
	})
}

func (w *world) slowDown(n *node) {
	n.slow = oneOf(w, time.Second, 5*time.Second, 9*time.Second)
	w.after(w.lasting(), func() { n.slow = 0 })
}

func (w *world) restartAgent(n *node) {
	n.killAgent()
	if n.on {
		n.inKernel(w.lasting(), n.startAgent)
	}
}

func (w *world) reset(n *node) {
	n.powerOff()
	w.after(w.lasting(), n.powerOn)
}

// kill ends a machine for good, if most are left.
func (w *world) kill(n *node) {
	dead := 0
	for _, other := range w.nodes {
		if other.dead {
			dead++
		}
	}
	if dead < len(w.nodes)-3 && w.chance(3) {
		n.dead = true
		n.powerOff()
	}
}

func (w *world) suspend(n *node) {
	n.suspend()
	w.after(w.lasting(), n.resume)
}

func (w *world) loseLeader(*node) {
	if w.leader != nil {
		w.leader.lose("a fault")
	}
}

func (w *world) changeDevice(*node) {
	w.device.mode = oneOf(w, deviceWorks, deviceSlow, deviceSlow, deviceFails, deviceHangs)
}

// failTask lets a task of a node fail.
func (w *world) failTask(n *node) {
	for _, r := range n.sortedRuns() {
		if n.on && !n.suspended && n.agent != 0 && r.stage == running {
			r.fail()
			return
		}
	}
}

// changeJob registers a new version of a job, or stops it.
func (w *world) changeJob(*node) {
	id := oneOf(w, w.jobs...)
	if w.chance(4) {
		w.stopJob(id)
		return
	}
	w.register(id)
}

func (w *world) register(id string) {
	j := w.job(id)
	e := structs.NewEval(j, structs.TriggerJobRegister, w.stamp().Now)
	e.ID = structs.NewID()
	j.SubmitTime = e.CreateTime
	_ = propose(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: j, Eval: e, WriteOptions: w.stamp()})
}

func (w *world) stopJob(id string) {
	row := state.Job(w.store.Read(), structs.DefaultNamespace, id)
	if row == nil {
		return
	}
	e := structs.NewEval(row, structs.TriggerJobDeregister, w.stamp().Now)
	e.ID = structs.NewID()
	_ = propose(w, fsm.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        id,
		Eval:         e,
		WriteOptions: w.stamp(),
	})
}

// job returns a version of a job: a service of one task. The jobs "v0", "v1" and so on write the volume of
// their name, as "v0-next" does; "plain" has none.
func (w *world) job(id string) *structs.Job {
	g := &structs.TaskGroup{
		Disconnect:    w.rule,
		Name:          "g",
		Count:         1,
		EphemeralDisk: &structs.EphemeralDisk{SizeMB: 100},
		Tasks: []*structs.Task{{
			Name:      "t",
			Driver:    "exec",
			Config:    map[string]any{"command": "/bin/sleep"},
			Env:       map[string]string{"VERSION": strconv.Itoa(w.IntN(1000))},
			Resources: &structs.Resources{CPU: 100, MemoryMB: 100},
		}},
		ReschedulePolicy: &structs.ReschedulePolicy{
			Delay:         w.delay(),
			DelayFunction: structs.RescheduleConstant,
			Unlimited:     true,
		},
	}
	if id != "plain" {
		g.Volumes = map[string]*structs.VolumeRequest{"v": {
			Name:           "v",
			Type:           structs.VolumeTypeCSI,
			Source:         volumeOf(id),
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}}
	}
	j := &structs.Job{ID: id, Type: structs.JobService, TaskGroups: []*structs.TaskGroup{g}}
	defaults.Canonicalize(j)
	return j
}

// volumeOf returns the volume that a job writes.
func volumeOf(job string) string {
	volume, _, _ := strings.Cut(job, "-")
	return volume
}

// orderFence is the order of an operator to fence a lost node.
func (w *world) orderFence(n *node) {
	_ = propose(w, fsm.FenceOrdered, &cluster.NodeFenceRequest{
		NodeID:       n.id,
		By:           "ann",
		Why:          "it is lost",
		WriteOptions: w.stamp(),
	})
}

// confirmLost is the word of an operator about a machine that is off. Operators tell the truth.
func (w *world) confirmLost(n *node) {
	if n.on || n.holder != nil && n.holder.isOn() {
		return
	}
	_ = propose(w, fsm.ConfirmLost, &cluster.NodeFenceRequest{
		NodeID:       n.id,
		By:           "ann",
		Why:          "it is switched off",
		WriteOptions: w.stamp(),
	})
}

// orderLease gives a node a longer lease, as an operator does before the agent stops.
func (w *world) orderLease(n *node) {
	if w.leader == nil {
		return
	}
	l := w.leader
	length, err := l.leases.Length(time.Minute + w.upTo(10*time.Minute))
	if err != nil {
		w.note("%v", err)
		return
	}
	err = propose(w, fsm.NodeLeaseSet, &cluster.NodeLeaseRequest{NodeID: n.id, Length: length})
	if err == nil {
		_ = l.leases.Extend(n.id, length)
	}
}
