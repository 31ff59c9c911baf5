package invariant

import (
	"slices"
	"testing"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
	"berth/structs/defaults"
)

// calmFleet has two nodes and runs all that its jobs want: every rule holds. Job web is a service of two
// allocations that share a CSI volume, sys runs on each node, and disk has a host volume for itself.
func calmFleet(t *testing.T, edits ...func(*schedtest.Fleet)) *View {
	t.Helper()
	f := schedtest.New(t, 0)
	for _, id := range []string{"n0", "n1"} {
		f.Node(id, func(n *structs.Node) {
			n.NodePool = structs.DefaultNodePool
			n.HostVolumes = map[string]*structs.HostVolume{"data": {Path: "/data"}}
		})
	}
	f.Volume("vol")
	f.Register(canonical(schedtest.Job("web", structs.JobService, 2, shared("vol"))))
	f.Register(canonical(schedtest.Job("sys", structs.JobSystem, 1)))
	f.Register(canonical(schedtest.Job("disk", structs.JobService, 1, func(g *structs.TaskGroup) {
		g.Volumes = map[string]*structs.VolumeRequest{"d": {
			Name:       "d",
			Type:       structs.VolumeTypeHost,
			Source:     "data",
			AccessMode: structs.CSISingleNodeSingleWriter,
		}}
	})))
	for range 30 {
		f.Tick()
	}
	for _, a := range f.Allocs("web") {
		f.Claim(a, "vol", structs.CSIMultiNodeMultipleWriter)
	}
	for _, edit := range edits {
		edit(f)
	}
	return NewView(f.Store.Read())
}

func canonical(j *structs.Job) *structs.Job {
	defaults.Canonicalize(j)
	for _, g := range j.TaskGroups {
		g.Update = nil
	}
	return j
}

// shared lets a group write a volume that others may write, too.
func shared(volume string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		g.Volumes = map[string]*structs.VolumeRequest{"v": {
			Name:           "v",
			Type:           structs.VolumeTypeCSI,
			Source:         volume,
			AccessMode:     structs.CSIMultiNodeMultipleWriter,
			AttachmentMode: structs.CSIFileSystem,
		}}
	}
}

func jobKey(id string) structs.JobKey {
	return structs.JobKey{Namespace: structs.DefaultNamespace, ID: id}
}

// alloc returns a changed copy of an allocation of a job, which the view then has in its place.
func (v *View) alloc(job string, at int, edits ...func(*structs.Allocation)) *structs.Allocation {
	a := *v.ByJob[jobKey(job)][at]
	v.remove(&a)
	for _, edit := range edits {
		edit(&a)
	}
	v.add(&a)
	return &a
}

// twin adds a copy of an allocation with another ID.
func (v *View) twin(job string, at int, edits ...func(*structs.Allocation)) *structs.Allocation {
	a := *v.ByJob[jobKey(job)][at]
	a.ID = structs.NewID()
	for _, edit := range edits {
		edit(&a)
	}
	v.add(&a)
	return &a
}

func (v *View) add(a *structs.Allocation) {
	key := jobKey(a.JobID)
	v.Allocs[a.ID] = a
	v.ByJob[key] = append(v.ByJob[key], a)
	if !a.ClientTerminal() {
		v.OnNode[a.NodeID] = append(v.OnNode[a.NodeID], a)
	}
}

func (v *View) remove(a *structs.Allocation) {
	is := func(other *structs.Allocation) bool { return other.ID == a.ID }
	delete(v.Allocs, a.ID)
	key := jobKey(a.JobID)
	v.ByJob[key] = slices.DeleteFunc(slices.Clone(v.ByJob[key]), is)
	v.OnNode[a.NodeID] = slices.DeleteFunc(slices.Clone(v.OnNode[a.NodeID]), is)
}

func (v *View) node(id string, edit func(*structs.Node)) {
	n := *v.Nodes[id]
	edit(&n)
	v.Nodes[id] = &n
}

// claim changes a claim.
func (v *View) claim(at int, edit func(*structs.CSIClaim)) {
	c := *v.Claims[at]
	edit(&c)
	v.Claims[at] = &c
}

// open adds an evaluation of a job.
func (v *View) open(job, status string, groups ...string) {
	e := &structs.Evaluation{ID: "e", JobID: job, Status: status}
	e.FailedTGAllocs = map[string]*structs.AllocMetric{}
	for _, g := range groups {
		e.FailedTGAllocs[g] = &structs.AllocMetric{}
	}
	v.Open[jobKey(job)] = append(v.Open[jobKey(job)], e)
}

// deploy gives a job a deployment of its version with a group g.
func (v *View) deploy(job, status string) {
	j := state.Job(v.Tx, structs.DefaultNamespace, job)
	v.Deployments[jobKey(job)] = &structs.Deployment{
		Namespace:  structs.DefaultNamespace,
		JobID:      job,
		JobVersion: j.Version,
		Status:     status,
		TaskGroups: map[string]*structs.DeploymentState{"g": {DesiredTotal: 2}},
	}
}
