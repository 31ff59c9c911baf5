package rows

import (
	"fmt"
	"time"

	"berth/bench/shape"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// Cluster says which rows a cluster has.
type Cluster struct {
	// Rows is how many volumes, jobs, allocations, evaluations and deployments there are. There are a tenth as
	// many nodes, at least ten, and as many plugins, at most MostPlugins.
	Rows int
	// Wrong has things wrong: a tenth of the nodes is down with the writers of a tenth of the volumes, for
	// which a tenth of the jobs waits. A tenth of the allocations, deployments and plugins has failed. Without
	// it nothing is wrong, so a search for problems reads all rows.
	Wrong bool
}

// MostPlugins is how many plugins a cluster has at most, and spread on how many nodes each of them runs. The
// plugin of the volumes runs on all nodes.
const (
	MostPlugins = 1000
	spread      = 3
)

// Names that package shape gives to plugins and jobs.
const (
	provider = "ebs.csi.example.test"
	group    = "web"
)

// age is for how long all has been as it is.
const age = time.Hour

// filling is the transaction that puts the rows of a cluster.
type filling struct {
	Cluster
	*state.WriteTx
	nodes int
	now   time.Time
}

// fill puts the rows.
func (c Cluster) fill(tx *state.WriteTx) error {
	f := &filling{c, tx, max(c.Rows/10, 10), time.Now().Add(-age)}
	for i := range f.nodes {
		f.putNode(i)
	}
	for i := range min(c.Rows, MostPlugins) {
		f.putPlugin(i)
	}
	for i := range c.Rows {
		f.putVolume(i)
		f.putJob(i)
		f.putAlloc(i)
	}
	return nil
}

// wrong reports whether the thing with a number is in the tenth that ends with a digit, and that is wrong.
func (f *filling) wrong(i, digit int) bool { return f.Wrong && i%10 == digit }

// The digits of the nodes that are down, with the allocations and volumes on them, and of the allocations
// that have failed. The number of an allocation and that of its node end with the same digit.
const (
	lost   = 9
	failed = 8
)

func (f *filling) putNode(i int) {
	node := shape.Node(i)
	node.Status = structs.NodeReady
	node.StatusUpdatedAt = f.now.Unix()
	if f.wrong(i, lost) {
		node.Status = structs.NodeDown
	}
	schema.Nodes.Put(f.WriteTx, node)
}

// putPlugin puts a plugin and its instances. The first one is that of the volumes.
func (f *filling) putPlugin(i int) {
	row := &structs.CSIPluginRow{ID: shape.Plugin, Provider: provider, Known: true}
	on := f.nodes
	if i > 0 {
		row.ID = fmt.Sprintf("csi-%04d", i)
		row.ControllerRequired = true
		row.ControllerSeen = true
		row.SupportsAttachDetach = true
		on = spread
	}
	schema.Plugins.Put(f.WriteTx, row)
	for k := range on {
		half := shape.Instance(row.ID, (i+k)%f.nodes, 0)
		half.Healthy = !f.wrong((i+k)%f.nodes, lost)
		f.putInstance(half)
	}
	if row.ControllerRequired {
		half := shape.Instance(row.ID, i%f.nodes, 0)
		half.Kind = structs.CSIKindController
		half.NodeInfo = nil
		half.ControllerInfo = &structs.CSIControllerInfo{SupportsAttachDetach: true}
		half.Healthy = !f.wrong(i, lost)
		f.putInstance(half)
	}
}

func (f *filling) putInstance(half *structs.CSIPluginInstance) {
	schema.Instances.Put(f.WriteTx, half)
	csi.RecountHalf(f.WriteTx, half.Key(), csi.Tally{}, csi.TallyInstance(half))
}

// putVolume puts a volume and its claims: one allocation has it, and that of a lost node another one wants.
func (f *filling) putVolume(i int) {
	v := shape.Volume(shape.VolumeID(i), i)
	v.State = structs.VolumeReady
	schema.Volumes.Put(f.WriteTx, v)

	has := shape.Claim(v.ID, i, structs.ClaimWrite)
	has.NodeID = shape.UUID("node", i%f.nodes)
	has.PluginID = v.PluginID
	has.JobID = jobID(i)
	has.TaskGroup = group
	has.State = structs.ClaimGranted
	has.CreateTime = f.now.UnixNano()
	has.GrantIndex = 1
	has.GrantTime = f.now.UnixNano()
	csi.StoreClaim(f.WriteTx, has)
	if f.wrong(i, lost) {
		wants := has.Copy()
		wants.AllocID = shape.UUID("alloc", i+f.Rows)
		wants.NodeID = shape.UUID("node", (i+1)%f.nodes)
		wants.State = structs.ClaimWaiting
		wants.Seq = 1
		wants.GrantIndex = 0
		wants.GrantTime = 0
		csi.StoreClaim(f.WriteTx, wants)
	}
}

func jobID(i int) string { return fmt.Sprintf("job-%06d", i) }

// putJob puts a job with its evaluation and its deployment.
func (f *filling) putJob(i int) {
	job := shape.Job(1)
	job.ID = jobID(i)
	job.Name = job.ID
	job.Type = structs.JobService
	volume := shape.VolumeID(i)
	job.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"data": {
		Name: "data", Type: "csi", Source: volume,
		AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem,
	}}
	schema.Jobs.Put(f.WriteTx, job)

	eval := structs.NewEval(job, structs.TriggerJobRegister, f.now.UnixNano())
	eval.ID = shape.UUID("evaluation", i)
	eval.Status = structs.EvalComplete
	if f.wrong(i, lost) {
		eval.TriggeredBy = structs.TriggerNodeUpdate
		eval.Status = structs.EvalBlocked
		eval.QueuedAllocations = map[string]int{group: 1}
		eval.FailedTGAllocs = map[string]*structs.AllocMetric{group: {
			NodesEvaluated: f.nodes,
			NodesFiltered:  f.nodes,
			Rejections: []*structs.PlacementRejection{{
				Filter: "csi-volume", Reason: "volume " + volume + " has its writer", Nodes: f.nodes,
			}},
		}}
	}
	schema.Evals.Put(f.WriteTx, eval)

	d := &structs.Deployment{
		ID: shape.UUID("deployment", i), Namespace: job.Namespace, JobID: job.ID,
		Status:     structs.DeploymentSuccessful,
		CreateTime: f.now.UnixNano(), ModifyTime: f.now.UnixNano(),
	}
	if f.wrong(i, failed) {
		d.Status = structs.DeploymentFailed
		d.StatusDescription = "its allocations have failed"
	}
	schema.Deployments.Put(f.WriteTx, d)
}

// putAlloc puts the allocation of a job, which has its volume, and one that waits for the volume of a lost
// node.
func (f *filling) putAlloc(i int) {
	a := shape.Alloc(i, f.nodes)
	a.JobID = jobID(i)
	a.Name = a.JobID + "." + group + "[0]"
	a.EvalID = "" // no page shows it, and the count of one evaluation would change with each row
	a.CreateTime = f.now.UnixNano()
	a.ModifyTime = f.now.UnixNano()
	switch {
	case f.wrong(i, failed):
		a.ClientStatus = structs.AllocFailed
		a.TaskStates = map[string]*structs.TaskState{group: {
			State: structs.TaskDead, Failed: true,
			Events: []*structs.TaskEvent{{
				Type:           structs.TaskEventTerminated,
				Time:           f.now.UnixNano(),
				DisplayMessage: "exit code 1",
			}},
		}}
	case f.wrong(i, lost):
		a.DesiredStatus = structs.AllocDesiredStop
		a.ClientStatus = structs.AllocLost
		next := shape.Alloc(i+f.Rows, f.nodes)
		next.NodeID = shape.UUID("node", (i+1)%f.nodes)
		next.NodeName = shape.Node((i + 1) % f.nodes).Name
		next.JobID = a.JobID
		next.Name = a.Name
		next.EvalID = ""
		next.ClientStatus = structs.AllocPending
		next.PreviousAllocation = a.ID
		next.CreateTime = a.CreateTime
		next.ModifyTime = a.ModifyTime
		a.NextAllocation = next.ID
		schema.Allocs.Put(f.WriteTx, next)
	}
	schema.Allocs.Put(f.WriteTx, a)
}
