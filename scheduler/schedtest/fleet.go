// Package schedtest is a fleet for tests: a store, the scheduler, and nodes whose tasks start and end after a
// tick of a second. It checks the invariants of the store after each entry.
//
// It has neither Raft nor agents: an entry is applied to the store with the next index, and a node is what
// runNode reports of it. Its clock moves with Tick only, so a run can be repeated.
package schedtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"berth/internal/level"
	"berth/scheduler"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// Fleet is a store with a clock.
type Fleet struct {
	T     rapid.TB
	Store *state.Store
	Clock time.Time
	Stuck map[string]bool // IDs of allocations that report nothing
	// Failing has the IDs of jobs whose checks fail: their new allocations do not become healthy.
	Failing map[string]bool
	index   uint64
}

// New returns a fleet with nodes n0, n1 and so on. Each has a healthy node instance of the plugin pl.
func New(t rapid.TB, nodes int) *Fleet {
	f := &Fleet{
		T:     t,
		Store: state.New(),
		// The time is a constant, so that a failing run of rapid can be repeated.
		Clock: time.Unix(1_700_000_000, 0),
		Stuck: map[string]bool{},

		Failing: map[string]bool{},
		index:   10,
	}

	for i := range nodes {
		f.Node(fmt.Sprintf("n%d", i))
	}

	return f
}

// Node registers a node, or registers it again.
func (f *Fleet) Node(id string, edits ...func(*structs.Node)) {
	f.T.Helper()
	n := &structs.Node{
		ID:         id,
		Name:       id,
		SecretID:   "s",
		Datacenter: "dc1",
		Status:     structs.NodeReady,
		// Without its level a node would be one of the first release, and reject newer fields.
		Attributes: map[string]string{structs.AttrNodeLevel: fmt.Sprint(level.Now)},
		Drivers:    map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 100000},
			Memory: structs.NodeMemoryResources{MemoryMB: 100000},
			Disk:   structs.NodeDiskResources{DiskMB: 100000},
		},
	}

	for _, edit := range edits {
		edit(n)
	}

	// A second registration also ends a loss of the node, as a real agent's does.
	Do(f, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         n,
		CSI:          []*structs.CSIPluginInstance{Instance(id)},
		WriteOptions: f.Now(),
	})
}

// Instance returns a healthy node instance of the plugin pl.
func Instance(node string) *structs.CSIPluginInstance {
	return &structs.CSIPluginInstance{
		Kind:   structs.CSIKindNode,
		NodeID: node,
		CSIInfo: structs.CSIInfo{
			PluginID: "pl",
			Provider: "pl.csi",
			Healthy:  true,
			NodeInfo: &structs.CSINodeInfo{ID: "ext-" + node},
		},
	}
}

// Clean lets a node that is back after a loss tell that it has released what it lost.
func (f *Fleet) Clean(id string) {
	n := state.Node(f.Store.Read(), id)
	if !n.Returning {
		return
	}
	Do(f, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{id},
		Status:       n.Status,
		CleanFor:     n.Epoch,
		WriteOptions: f.Now(),
	})
}

// Now returns the options of an entry at the time of the fleet.
func (f *Fleet) Now() structs.WriteOptions {
	return structs.WriteOptions{Now: f.Clock.UnixNano()}
}

// Do applies an entry that must succeed.
func Do[P any](f *Fleet, fn func(*state.WriteTx, *P) error, p *P) {
	f.T.Helper()
	f.index++
	err := f.Store.Write(f.index, func(tx *state.WriteTx) error { return fn(tx, p) })
	if err != nil {
		f.T.Fatalf("at index %d: %v", f.index, err)
	}

	// The entry that breaks an invariant is the one to look at, so each is checked.
	faults := state.Check(f.Store.Read())
	if len(faults) > 0 {
		f.T.Fatalf("after index %d: %s", f.index, strings.Join(faults, "\n"))
	}
}

// Job returns a job with one group g of one task t.
func Job(id, kind string, count int, edits ...func(*structs.TaskGroup)) *structs.Job {
	g := &structs.TaskGroup{
		Name:  "g",
		Count: count,
		Tasks: []*structs.Task{{
			Name:   "t",
			Driver: "exec",
			// A node of the fleet has capacity for 10,000 of them, so only tests that edit this meet its
			// limit.
			Resources: &structs.Resources{CPU: 10, MemoryMB: 10},
		}},
	}

	for _, edit := range edits {
		edit(g)
	}

	return &structs.Job{
		ID:          id,
		Type:        kind,
		Priority:    50,
		Datacenters: []string{"dc1"},
		TaskGroups:  []*structs.TaskGroup{g},
	}
}

// Register adds a job with a pending evaluation.
func (f *Fleet) Register(j *structs.Job) {
	f.T.Helper()
	Do(f, state.JobRegister, &structs.JobRegisterRequest{
		Job: j,
		Eval: &structs.Evaluation{
			ID:          "eval-" + j.ID,
			JobID:       j.ID,
			TriggeredBy: structs.TriggerJobRegister,
			Status:      structs.EvalPending,
		},
		WriteOptions: f.Now(),
	})
}

// Schedule processes all pending evaluations.
func (f *Fleet) Schedule() {
	f.T.Helper()
	for {
		evals := slices.Collect(state.ReadyEvals(f.Store.Read()))

		// A plan may make evaluations pending again, so the list is read anew after each.
		if len(evals) == 0 {
			return
		}

		plan, err := scheduler.Process(f.Store.Read(), evals[0], f.Clock)
		if err != nil {
			f.T.Fatal(err)
		}

		// The leader sets the time of a plan when it proposes it.
		plan.Now = f.Clock.UnixNano()
		Do(f, state.PlanApply, plan)
	}
}

// Tick lets a second pass: the scheduler processes all evaluations, and the nodes start and end allocations.
func (f *Fleet) Tick() {
	f.T.Helper()

	// The plans precede the reports, so that a node sees a stop and a placement of one plan at one tick.
	f.Schedule()
	f.Clock = f.Clock.Add(time.Second)
	for n := range state.Nodes(f.Store.Read()) {
		f.runNode(n.ID)
	}
}

// runNode reports the next state of each allocation of a node.
func (f *Fleet) runNode(node string) {
	f.T.Helper()
	for a := range state.AllocsByNode(f.Store.Read(), node) {
		switch {
		case a.ClientTerminal(), f.Stuck[a.ID]:
		// A task ends at the tick after its stop.
		case a.ServerTerminal():
			f.Report(a, &structs.AllocClientUpdate{ClientStatus: structs.AllocComplete})
		case a.ClientStatus == structs.AllocPending:
			f.Report(a, &structs.AllocClientUpdate{
				ClientStatus: structs.AllocRunning,
				// The start counts for the health: see reportHealth.
				TaskStates: map[string]*structs.TaskState{
					"t": {State: structs.TaskRunning, StartedAt: f.Clock},
				},
			})

		default:
			f.reportHealth(a)
		}
	}
}

// reportHealth reports that an allocation in no deployment is healthy, once its tasks have run for long
// enough.
func (f *Fleet) reportHealth(a *structs.Allocation) {
	f.T.Helper()
	rule := state.JobOf(f.Store.Read(), a).Group(a.TaskGroup).HealthRule(false)
	since := structs.OrderOf(state.JobOf(f.Store.Read(), a).Group(a.TaskGroup).Tasks, a.TaskStates).Since

	// The tests report the health in deployments themselves.
	if rule == nil || a.DeploymentID != "" || a.DeploymentStatus.IsKnown() || f.Failing[a.JobID] ||
		since.IsZero() || f.Clock.Sub(since) < rule.MinTime {
		return
	}

	f.Report(a, &structs.AllocClientUpdate{
		ClientStatus:     structs.AllocRunning,
		DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)},
	})
}

// Report applies a report of a node on one of its allocations.
func (f *Fleet) Report(a *structs.Allocation, u *structs.AllocClientUpdate) {
	f.T.Helper()
	u.ID = a.ID
	Do(f, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       a.NodeID,
		Allocs:       []*structs.AllocClientUpdate{u},
		WriteOptions: f.Now(),
	})
}

// Allocs returns the live allocations of a job, by their index.
func (f *Fleet) Allocs(job string) []*structs.Allocation {
	// An update has two allocations with one index for a while. Their order is not defined.
	all := slices.Collect(state.LiveAllocsByJob(f.Store.Read(), structs.DefaultNamespace, job))
	slices.SortFunc(all, func(a, b *structs.Allocation) int {
		return a.Index() - b.Index()
	})
	return all
}

// Volume adds a volume of the plugin pl that many may write.
func (f *Fleet) Volume(id string, edits ...func(*structs.CSIVolume)) {
	f.T.Helper()
	v := &structs.CSIVolume{
		ID: id,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:   "pl",
			ExternalID: "ext-" + id,
			RequestedCapabilities: []*structs.CSIVolumeCapability{
				// Both modes are possible, so a test chooses by its claims whether they exclude each other.
				{AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem},
				{AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem},
			},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
	}

	for _, edit := range edits {
		edit(v)
	}

	Do(f, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: f.Now(),
	})
}

// Claim lets an allocation claim a volume.
func (f *Fleet) Claim(
	a *structs.Allocation,
	volume string,
	access structs.CSIAccessMode,
	edits ...func(*structs.CSIClaim),
) {
	f.T.Helper()
	c := &structs.CSIClaim{
		VolumeID:       volume,
		AllocID:        a.ID,
		Mode:           structs.ClaimWrite,
		AccessMode:     access,
		AttachmentMode: structs.CSIFileSystem,
	}

	for _, edit := range edits {
		edit(c)
	}

	Do(f, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:       a.NodeID,
		Claims:       []*structs.CSIClaim{c},
		WriteOptions: f.Now(),
	})
}

// Release lets the node of an allocation release a volume.
func (f *Fleet) Release(a *structs.Allocation, volume string) {
	f.T.Helper()
	Do(f, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID: a.NodeID,
		Claims: []structs.CSIClaimKey{{
			Namespace: structs.DefaultNamespace,
			VolumeID:  volume,
			AllocID:   a.ID,
		}},
		WriteOptions: f.Now(),
	})
}
