package csirandom

import (
	"errors"
	"fmt"
	"time"

	"berth/client/drivers/driver"
	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// The numbers of volumes, of jobs for each of them, and of snapshots that a run names.
const (
	volumeCount   = 6
	jobsOfVolume  = 2
	snapshotCount = 4
)

// operation is a random operation with its weight among the others.
type operation struct {
	name   string
	weight int
	do     func(w *world) func() error // draws its arguments and returns the request
}

var operations = []operation{
	{"create a volume", 12, (*world).createVolume},
	{"copy a volume", 4, (*world).copyVolume},
	{"delete a volume", 9, (*world).deleteVolume},
	{"keep a volume", 2, (*world).undeleteVolume},
	{"expand a volume", 5, (*world).expandVolume},
	{"modify a volume", 4, (*world).modifyVolume},
	{"register a volume", 2, (*world).registerVolume},
	{"run a job", 18, (*world).runJob},
	{"stop a job", 18, (*world).stopJob},
	{"run a job that asks for volumes", 6, (*world).runAskingJob},
	{"stop a job that asks for volumes", 5, (*world).stopAskingJob},
	{"scale a job", 6, (*world).scaleJob},
	{"move an allocation", 8, (*world).moveAlloc},
	{"end a task", 4, (*world).endTask},
	{"take a snapshot", 6, (*world).takeSnapshot},
	{"restore a snapshot", 4, (*world).restoreSnapshot},
	{"delete a snapshot", 4, (*world).deleteSnapshot},
	{"take a group snapshot", 4, (*world).takeGroup},
	{"delete a group snapshot", 3, (*world).deleteGroup},
	{"drain a node", 1, (*world).drainNode},
	{"end a drain", 2, (*world).endDrain},
	{"kill the agent of a node", 1, (*world).killAgent},
	{"kill the plugin on a node", 2, (*world).killPlugin},
	{"take the power from a node", 1, (*world).losePower},
	{"confirm the loss of a node", 2, (*world).confirmLoss},
	{"cut a node from the servers", 2, (*world).cutNode},
	{"cut a server from the others", 2, (*world).cutServer},
	{"list what the storage has", 3, (*world).listStorage},
}

// draw returns an operation by the weights.
func (w *world) draw() operation {
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	at := w.IntN(total)
	for _, o := range operations {
		if at < o.weight {
			return o
		}
		at -= o.weight
	}
	panic("the weights do not add up")
}

func (w *world) volumeID() string { return fmt.Sprintf("v%d", w.IntN(volumeCount)) }

func (w *world) snapshotName() string { return fmt.Sprintf("s%d", w.IntN(snapshotCount)) }

// jobID returns a job and its volume.
func (w *world) jobID() (job, volume string) {
	volume = w.volumeID()
	return fmt.Sprintf("j%d-%s", w.IntN(jobsOfVolume), volume), volume
}

// modes are the access modes of the volumes, by their IDs, so that a job fits its volume mostly.
var modes = map[string]structs.CSIAccessMode{
	"v0": structs.CSISingleNodeWriter,
	"v1": structs.CSISingleNodeWriter,
	"v2": structs.CSISingleNodeSingleWriter,
	"v3": structs.CSISingleNodeMultiWriter,
	"v4": structs.CSIMultiNodeSingleWriter,
	"v5": structs.CSIMultiNodeMultipleWriter,
}

// fenced are the volumes that leave a lost node after the proof of its fence device.
var fenced = map[string]bool{"v0": true, "v2": true, "v4": true}

// severalWriters are the volumes whose jobs may have several allocations.
var severalWriters = map[string]bool{"v3": true, "v5": true}

// sizeStep is the unit of sizes, in bytes.
const sizeStep = 1 << 20

// newVolume returns the request for a volume.
func (w *world) newVolume(id string) *structs.CSIVolume {
	after := time.Duration(w.IntN(3)) * 500 * time.Millisecond
	v := &structs.CSIVolume{
		ID: id,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:             pluginID,
			Parameters:           map[string]string{"pool": "a"},
			Secrets:              structs.Secrets{"key": "secret of " + id},
			RequestedCapacityMin: 4 * sizeStep,
			Reclaim:              storage.ReclaimDelete,
			DeleteAfter:          &after,
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AccessMode:     modes[id],
				AttachmentMode: structs.CSIFileSystem,
			}},
		},
	}
	if fenced[id] {
		v.OnNodeLoss = structs.LossFence
	}
	return v
}

func (w *world) createRequest(v *structs.CSIVolume) func() error {
	return func() error {
		_, err := request(w, structs.CSIVolumeCreate,
			&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
		return err
	}
}

func (w *world) createVolume() func() error { return w.createRequest(w.newVolume(w.volumeID())) }

func (w *world) copyVolume() func() error {
	v := w.newVolume(w.volumeID())
	v.CloneID = w.volumeID()
	v.RequestedCapacityMin = 64 * sizeStep
	return w.createRequest(v)
}

func (w *world) restoreSnapshot() func() error {
	v := w.newVolume(w.volumeID())
	v.Snapshot = w.snapshotOrMember()
	v.RequestedCapacityMin = 64 * sizeStep
	return w.createRequest(v)
}

// change edits the row of a volume and puts it.
func (w *world) change(id string, edit func(v *structs.CSIVolume)) func() error {
	return func() error {
		get := &structs.CSIVolumeGetRequest{ID: id}
		now, err := request(w, structs.CSIVolumeGet, get)
		if err != nil {
			return err
		}
		v := now.Volume.CSIVolume.Copy()
		v.Secrets = nil
		edit(v)
		return w.createRequest(v)()
	}
}

func (w *world) expandVolume() func() error {
	more := int64(1+w.IntN(3)) * sizeStep
	return w.change(w.volumeID(), func(v *structs.CSIVolume) { v.RequestedCapacityMin = v.Capacity + more })
}

func (w *world) modifyVolume() func() error {
	value := fmt.Sprint(w.IntN(1000))
	return w.change(w.volumeID(), func(v *structs.CSIVolume) {
		v.MutableParameters = map[string]string{"iops": value}
	})
}

// registerVolume takes a volume's row away and registers it again: the volume stays at the plugin.
func (w *world) registerVolume() func() error {
	id := w.volumeID()
	return func() error {
		now, err := request(w, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: id})
		if err != nil {
			return err
		}
		if now.Volume.State != structs.VolumeReady {
			return structs.Preconditionf("volume %s is %s", id, now.Volume.State)
		}
		_, err = request(w, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: id})
		if err != nil {
			return err
		}
		v := now.Volume.CSIVolume.Copy()
		v.ModifyIndex = 0
		v.Secrets = structs.Secrets{"key": "secret of " + id}
		err = w.again(func() error {
			_, err := request(w, structs.CSIVolumeRegister,
				&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
			return err
		})
		if err != nil { // another operation has created a volume of this ID meanwhile
			w.forsake(v.ExternalID)
		}
		return err
	}
}

// again repeats a request without which the storage would have a volume that no row knows.
func (w *world) again(do func() error) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := do()
		unknown := structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout)
		if !unknown || time.Now().After(deadline) {
			return err
		}
	}
}

func (w *world) deleteVolume() func() error {
	req := &structs.CSIVolumeDeleteRequest{ID: w.volumeID(), AtOnce: w.IntN(2) == 0}
	return func() error {
		_, err := request(w, structs.CSIVolumeDelete, req)
		return err
	}
}

func (w *world) undeleteVolume() func() error {
	req := &storage.VolumeUndeleteRequest{ID: w.volumeID()}
	return func() error {
		_, err := request(w, storage.VolumeUndelete, req)
		return err
	}
}

func (w *world) runJob() func() error {
	id, volume := w.jobID()
	group := newGroup(&structs.VolumeRequest{
		Name:           "data",
		Type:           structs.VolumeTypeCSI,
		Source:         volume,
		AccessMode:     modes[volume],
		AttachmentMode: structs.CSIFileSystem,
		ReadOnly:       w.IntN(4) == 0,
	})
	if severalWriters[volume] {
		group.Count = 1 + w.IntN(3)
	}
	return w.registerRequest(id, group)
}

// newGroup returns a group of one task with a volume, which is soon replaced after a failure.
func newGroup(volume *structs.VolumeRequest) *structs.TaskGroup {
	return &structs.TaskGroup{
		Name:  "g",
		Count: 1,
		Tasks: []*structs.Task{{
			Name:      "t",
			Driver:    "fake",
			Config:    map[string]any{},
			Resources: &structs.Resources{CPU: 10, MemoryMB: 10},
		}},
		Volumes: map[string]*structs.VolumeRequest{"data": volume},
		ReschedulePolicy: &structs.ReschedulePolicy{
			Unlimited:     true,
			Delay:         50 * time.Millisecond,
			DelayFunction: "constant",
			MaxDelay:      time.Second,
		},
		RestartPolicy: &structs.RestartPolicy{Mode: "fail", Interval: time.Minute, Delay: time.Millisecond},
	}
}

func (w *world) registerRequest(id string, group *structs.TaskGroup) func() error {
	job := &structs.Job{
		ID:          id,
		Type:        structs.JobService,
		Datacenters: []string{"dc1"},
		TaskGroups:  []*structs.TaskGroup{group},
	}
	return func() error {
		_, err := request(w, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
		return err
	}
}

// className is the class of the volumes that jobs ask for.
const className = "fast"

// putClass makes the class. Its volumes are created where their first allocation is placed, and deleted soon
// after their job.
func (w *world) putClass() {
	after := 200 * time.Millisecond
	_, err := request(w, storage.ClassPut, &storage.ClassPutRequest{Class: &storage.VolumeClass{
		Name:        className,
		PluginID:    pluginID,
		Reclaim:     storage.ReclaimDelete,
		DeleteAfter: &after,
		Binding:     storage.BindFirstConsumer,
	}})
	w.must(err)
}

// askingJobs is the number of jobs that ask for volumes.
const askingJobs = 2

func (w *world) askingJobID() string { return fmt.Sprintf("a%d", w.IntN(askingJobs)) }

func (w *world) runAskingJob() func() error {
	group := newGroup(&structs.VolumeRequest{
		Name:           "data",
		Type:           structs.VolumeTypeCSI,
		Class:          className,
		Size:           4 * sizeStep,
		PerAlloc:       true,
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	})
	group.Count = 1 + w.IntN(2)
	return w.registerRequest(w.askingJobID(), group)
}

func (w *world) stopAskingJob() func() error {
	req := &structs.JobDeregisterRequest{JobID: w.askingJobID(), Purge: w.IntN(2) == 0}
	return func() error {
		_, err := request(w, structs.JobDeregister, req)
		return err
	}
}

func (w *world) stopJob() func() error {
	id, _ := w.jobID()
	req := &structs.JobDeregisterRequest{JobID: id, Purge: w.IntN(2) == 0}
	return func() error {
		_, err := request(w, structs.JobDeregister, req)
		return err
	}
}

func (w *world) scaleJob() func() error {
	id, _ := w.jobID()
	count := int64(w.IntN(4))
	return func() error {
		_, err := request(w, structs.JobScale,
			&structs.JobScaleRequest{JobID: id, Group: "g", Count: &count})
		return err
	}
}

// runningAllocs returns the allocations that run, of all jobs.
func (w *world) runningAllocs() (all []*structs.Allocation) {
	for _, s := range w.Servers {
		if !s.Running() {
			continue
		}
		for a := range state.AllocsFrom(s.Store().Read(), structs.AllNamespaces, "", state.Page{}) {
			if !a.Terminal() && a.ClientStatus == structs.AllocRunning {
				all = append(all, a)
			}
		}
		return all
	}
	return nil
}

var errNothing = errors.New("there is none")

func (w *world) moveAlloc() func() error {
	at := w.Uint64()
	return func() error {
		all := w.runningAllocs()
		if len(all) == 0 {
			return errNothing
		}
		id := all[at%uint64(len(all))].ID
		_, err := request(w, structs.AllocStop, &structs.AllocStopRequest{AllocID: id})
		return err
	}
}

// endTask lets a task fail by itself.
func (w *world) endTask() func() error {
	n := w.nodes[w.IntN(len(w.nodes))]
	at := w.Uint64()
	return func() error {
		tasks := n.machine.Running()
		if len(tasks) == 0 {
			return errNothing
		}
		if !n.machine.TryExit(tasks[at%uint64(len(tasks))], driver.ExitResult{ExitCode: 1}) {
			return errNothing
		}
		return nil
	}
}

func (w *world) takeSnapshot() func() error {
	s := &storage.CSISnapshot{Name: w.snapshotName(), SourceVolumeID: w.volumeID(), PluginID: pluginID}
	return func() error {
		_, err := request(w, storage.SnapshotCreate,
			&storage.SnapshotCreateRequest{Snapshots: []*storage.CSISnapshot{s}})
		return err
	}
}

func (w *world) deleteSnapshot() func() error {
	req := &storage.SnapshotDeleteRequest{SnapshotName: w.snapshotName()}
	return func() error {
		_, err := request(w, storage.SnapshotDelete, req)
		return err
	}
}

// listStorage lists the volumes and the snapshots at the plugin, in pages.
func (w *world) listStorage() func() error {
	size := int32(1 + w.IntN(4))
	return func() error {
		volumes := &structs.CSIVolumeExternalRequest{PluginID: pluginID}
		volumes.PerPage = size
		snapshots := &storage.SnapshotExternalRequest{PluginID: pluginID}
		snapshots.PerPage = size
		for {
			page, err := request(w, structs.CSIVolumeExternal, volumes)
			if err != nil {
				return err
			}
			volumes.NextToken = page.NextToken
			if page.NextToken == "" {
				break
			}
		}
		for {
			page, err := request(w, storage.SnapshotExternal, snapshots)
			if err != nil {
				return err
			}
			snapshots.NextToken = page.NextToken
			if page.NextToken == "" {
				return nil
			}
		}
	}
}

func (w *world) drainNode() func() error {
	n := w.nodes[w.IntN(len(w.nodes))]
	return func() error {
		_, err := request(w, structs.NodeDrain, &structs.NodeDrainRequest{
			NodeID: n.id, DrainSpec: &structs.DrainSpec{Deadline: time.Minute}})
		return err
	}
}

func (w *world) endDrain() func() error {
	n := w.nodes[w.IntN(len(w.nodes))]
	return func() error {
		_, err := request(w, structs.NodeDrain, &structs.NodeDrainRequest{NodeID: n.id, MarkEligible: true})
		return err
	}
}

func (w *world) killAgent() func() error {
	n := w.nodes[w.IntN(len(w.nodes))]
	return func() error {
		n.restart()
		return nil
	}
}

func (w *world) killPlugin() func() error {
	n := w.nodes[w.IntN(len(w.nodes))]
	return func() error {
		n.crash()
		return nil
	}
}

func (w *world) losePower() func() error {
	n := w.nodes[w.IntN(len(w.nodes))]
	return func() error {
		n.losePower()
		return nil
	}
}

// killLeader kills the leader, waits for the next one and starts the former leader again.
func (w *world) killLeader() {
	old := w.Leader()
	w.record("kill the leader %s", old.Name)
	w.must(old.Kill())
	w.Leader(w.Others(old)...)
	w.Restart(old)
}
