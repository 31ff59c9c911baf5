package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"berth/internal/level"
	"berth/scheduler/place"
	"berth/state"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/defaults"
	"berth/structs/storage"
)

// The bounds of package place that tests reach.
const (
	readAhead    = 1024
	readBatch    = 32
	retriedNodes = 64
	mostClass    = 128
	nearIDs      = 16
	nearDigits   = 3
)

// fixture is a store with short ways to fill it. After every entry the store's invariants are checked.
type fixture struct {
	t     rapid.TB
	s     *state.Store
	index uint64
	clock time.Time

	options options // of its plans
}

func newFixture(t rapid.TB) *fixture {
	return &fixture{
		t:     t,
		s:     state.New(),
		index: 10,
		clock: time.Unix(1_700_000_000, 0),

		options: options{enough: place.Enough},
	}
}

// running returns a fixture with nodes and a job that was evaluated.
func running(t rapid.TB, j *structs.Job, nodes ...string) *fixture {
	t.Helper()
	w := newFixture(t)
	w.nodes(nodes...)
	w.job(j)
	w.run(j.ID)
	return w
}

func (w *fixture) now() structs.WriteOptions {
	return structs.WriteOptions{Now: w.clock.UnixNano()}
}

// do applies one entry that must succeed.
func do[P any](w *fixture, fn func(*state.WriteTx, *P) error, p *P) {
	w.t.Helper()
	w.index++
	if err := w.s.Write(w.index, func(tx *state.WriteTx) error { return fn(tx, p) }); err != nil {
		w.t.Fatalf("at index %d: %v", w.index, err)
	}
	if faults := state.Check(w.s.Read()); len(faults) > 0 {
		w.t.Fatalf("after index %d: %s", w.index, strings.Join(faults, "\n"))
	}
}

// stepClock steps the cluster time by the word of an operator: forward to clocks that were found to be ahead
// at a time, or back.
func (w *fixture) stepClock(found time.Time, by time.Duration) {
	w.t.Helper()
	row := cluster.ClusterTime{Time: w.clock.UnixNano(), Since: found.UnixNano()}
	if old := clustertime.Of(w.s.Read()); old != nil {
		row.Jumps = old.Jumps
	}
	put := func(row cluster.ClusterTime) {
		p := &cluster.ClusterTimeRequest{Clock: row}
		if old := clustertime.Of(w.s.Read()); old != nil {
			p.RowIndex = old.ModifyIndex
		}
		do(w, clustertime.Put, p)
	}
	put(row)
	w.clock = w.clock.Add(by)
	put(clustertime.Accept(&row, clustertime.Reading{Wall: w.clock.UnixNano()}))
}

// aNode has 1000 MHz, 1000 MiB and a healthy exec driver.
func aNode(id string) *structs.Node {
	return &structs.Node{
		ID:         id,
		Name:       "name-" + id,
		SecretID:   "s",
		Datacenter: "dc1",
		Status:     structs.NodeReady,
		Attributes: map[string]string{
			"kernel.name":         "linux",
			"kernel.version":      "6.1.0",
			structs.AttrNodeLevel: strconv.Itoa(level.Now),
		},
		Meta:    map[string]string{"rack": "r1"},
		Drivers: map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 1000},
			Memory: structs.NodeMemoryResources{MemoryMB: 1000},
			Disk:   structs.NodeDiskResources{DiskMB: 10000},
		},
	}
}

func (w *fixture) node(n *structs.Node, csi ...*structs.CSIPluginInstance) {
	w.t.Helper()
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         n,
		CSI:          csi,
		WriteOptions: w.now(),
	})
	w.clean(n.ID)
}

// clean lets a node that is back after a loss tell that it has released what it lost.
func (w *fixture) clean(node string) {
	w.t.Helper()
	n := state.Node(w.s.Read(), node)
	if n == nil || !n.Returning {
		return
	}
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{node},
		Status:       n.Status,
		CleanFor:     n.Epoch,
		WriteOptions: w.now(),
	})
}

func (w *fixture) nodes(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.node(aNode(id))
	}
}

func (w *fixture) status(node, status string) {
	w.t.Helper()
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{node},
		Status:       status,
		WriteOptions: w.now(),
	})
	w.clean(node)
}

// csi updates a node's report of its plugin instances.
func (w *fixture) csi(node string, upserts ...*structs.CSIPluginInstance) {
	w.t.Helper()
	do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       node,
		Upserts:      upserts,
		WriteOptions: w.now(),
	})
}

// half is one healthy half of a plugin.
func half(plugin string, kind structs.CSIKind) *structs.CSIPluginInstance {
	i := &structs.CSIPluginInstance{Kind: kind, CSIInfo: structs.CSIInfo{
		PluginID:        plugin,
		Healthy:         true,
		Provider:        "p",
		ProviderVersion: "1",
	}}
	if kind == structs.CSIKindController {
		i.ControllerInfo = &structs.CSIControllerInfo{SupportsSingleNodeMultiWriter: true}
	} else {
		i.NodeInfo = &structs.CSINodeInfo{ID: "external", MultiWriter: true}
	}
	return i
}

// aJob returns a canonical job with one group g of one exec task that requests 100 MHz and 100 MiB.
func aJob(id, kind string, edits ...func(*structs.Job)) *structs.Job {
	j := &structs.Job{
		ID:   id,
		Type: kind,
		TaskGroups: []*structs.TaskGroup{{
			Name:          "g",
			Count:         1,
			EphemeralDisk: &structs.EphemeralDisk{},
			Tasks: []*structs.Task{{
				Name:   "t",
				Driver: "exec",
				Resources: &structs.Resources{
					CPU:      100,
					MemoryMB: 100,
				},
			}},
		}},
	}
	for _, edit := range edits {
		edit(j)
	}
	defaults.Canonicalize(j)
	return j
}

func count(n int) func(*structs.Job) {
	return func(j *structs.Job) {
		j.TaskGroups[0].Count = n
	}
}

func cpu(mhz int) func(*structs.Job) {
	return func(j *structs.Job) {
		j.TaskGroups[0].Tasks[0].Resources.CPU = mhz
	}
}

// atOnce makes an update replace all allocations at once.
func atOnce(j *structs.Job) {
	j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 0}
}

func volume(source string, mode structs.CSIAccessMode, perAlloc bool) func(*structs.Job) {
	return func(j *structs.Job) {
		g := j.TaskGroups[0]
		if g.Volumes == nil {
			g.Volumes = map[string]*structs.VolumeRequest{}
		}
		alias := fmt.Sprintf("v%d", len(g.Volumes))
		g.Volumes[alias] = &structs.VolumeRequest{
			Name:           alias,
			Type:           "csi",
			Source:         source,
			AccessMode:     mode,
			AttachmentMode: structs.CSIFileSystem,
			PerAlloc:       perAlloc,
			ReadOnly:       mode.ReaderOnly(),
		}
	}
}

func constraints(cs ...*structs.Constraint) func(*structs.Job) {
	return func(j *structs.Job) {
		j.Constraints = append(j.Constraints, cs...)
	}
}

func (w *fixture) job(j *structs.Job) *structs.Job {
	w.t.Helper()
	do(w, state.JobRegister, &structs.JobRegisterRequest{Job: j, WriteOptions: w.now()})
	return state.Job(w.s.Read(), j.Namespace, j.ID)
}

func (w *fixture) volume(id, plugin string, topologies ...*structs.CSITopology) {
	w.t.Helper()
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		WriteOptions: w.now(),
		Volumes: []*structs.CSIVolume{{
			ID: id, Namespace: structs.DefaultNamespace,
			CSIVolumeSpec:   structs.CSIVolumeSpec{Name: id, PluginID: plugin, ExternalID: "ext-" + id},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{Topologies: topologies},
		}},
	})
}

// claim takes the claims that an allocation's node would take.
func (w *fixture) claim(a *structs.Allocation) {
	w.t.Helper()
	tx := w.s.Read()
	var cs []*structs.CSIClaim
	for _, r := range storage.GroupOfAlloc(state.JobOf(tx, a), a).Volumes {
		c := r.Claim(a.Namespace, a.Index(), a.ID)
		c.AllocID = a.ID
		cs = append(cs, c)
	}
	do(w, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{Claims: cs, WriteOptions: w.now()})
}

// release releases all claims of an allocation.
func (w *fixture) release(a *structs.Allocation) {
	w.t.Helper()
	var keys []structs.CSIClaimKey
	for c := range csi.ClaimsByAlloc(w.s.Read(), a.ID) {
		keys = append(keys, c.Key())
	}
	do(w, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{Claims: keys, WriteOptions: w.now()})
}

func (w *fixture) client(a *structs.Allocation, status string) {
	w.t.Helper()
	do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		WriteOptions: w.now(),
		Allocs:       []*structs.AllocClientUpdate{{ID: a.ID, ClientStatus: status}},
	})
}

// eval is a new evaluation of a job.
func (w *fixture) eval(job string) *structs.Evaluation {
	return &structs.Evaluation{
		ID:          structs.NewID(),
		Namespace:   structs.DefaultNamespace,
		JobID:       job,
		TriggeredBy: structs.TriggerManual,
		Status:      structs.EvalPending,
		Priority:    50,
		CreateTime:  w.clock.UnixNano(),
	}
}

func (w *fixture) process(e *structs.Evaluation) *structs.Plan {
	w.t.Helper()
	tx := w.s.Read()
	p, err := process(tx, e, w.clock, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	if p.Eval.SnapshotIndex > w.index {
		w.t.Fatalf("snapshot index %d is above %d", p.Eval.SnapshotIndex, w.index)
	}
	return p
}

func (w *fixture) apply(p *structs.Plan) {
	w.t.Helper()
	p.WriteOptions = w.now()
	do(w, state.PlanApply, p)
	for _, e := range []*structs.Evaluation{p.Eval, p.Blocked} {
		if e == nil {
			continue
		}
		// Nothing was written since the plan was made, so only its own stops may unblock the evaluations that
		// it blocks.
		got := state.Eval(w.s.Read(), e.ID)
		unblocked := got.Again == structs.EvalWoken || got.Again == structs.EvalChanged &&
			(e == p.Blocked || strings.HasPrefix(got.StatusDescription, "woken"))
		if got.Status == structs.EvalPending && e.Status != structs.EvalPending &&
			!(len(p.Stop) > 0 && unblocked) {
			w.t.Fatalf("the plan was rejected: %s", got.StatusDescription)
		}
	}
}

// run evaluates a job, applies the plan, and checks that a second plan has nothing to do. It may add an
// evaluation for later, because it waits for what the first one stops and places. Then a third plan has none.
func (w *fixture) run(job string) *structs.Plan {
	w.t.Helper()
	p := w.process(w.eval(job))
	w.apply(p)
	again := w.process(w.eval(job))
	if p.Eval.FailedTGAllocs != nil && w.stopsVolumes(p) {
		w.apply(again) // new allocations come before updates, whose volumes a later plan may use
		again = w.process(w.eval(job))
	}
	if len(again.Followups) > 0 && len(p.Stop)+len(p.Place) > 0 {
		w.apply(again)
		again.Followups = w.process(w.eval(job)).Followups
	}
	if n := len(again.Place) + len(again.Stop) + len(again.Update) + len(again.Followups); n > 0 {
		w.t.Fatalf("second plan has %d changes: %s", n, describe(again))
	}
	return p
}

// stopsVolumes reports whether a plan stops an allocation with volumes.
func (w *fixture) stopsVolumes(p *structs.Plan) bool {
	return slices.ContainsFunc(p.Stop, func(s *structs.PlanStop) bool {
		return len(state.Alloc(w.s.Read(), s.AllocID).CSIVolumes) > 0
	})
}

// allocs are the live allocations of a job by name.
func (w *fixture) allocs(job string) []*structs.Allocation {
	var out []*structs.Allocation
	for a := range state.AllocsByJob(w.s.Read(), structs.DefaultNamespace, job) {
		if !a.Terminal() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *structs.Allocation) int {
		return strings.Compare(a.Name+a.NodeID, b.Name+b.NodeID)
	})
	return out
}

// placed writes a job's live allocations as "index@node ...".
func (w *fixture) placed(job string) string {
	var out []string
	for _, a := range w.allocs(job) {
		out = append(out, fmt.Sprintf("%d@%s", a.Index(), a.NodeID))
	}
	return strings.Join(out, " ")
}

func (w *fixture) wantPlaced(job, want string) {
	w.t.Helper()
	if got := w.placed(job); got != want {
		w.t.Fatalf("job %s: %q, want %q", job, got, want)
	}
}

func describe(p *structs.Plan) string {
	var out []string
	for _, a := range p.Place {
		out = append(out, fmt.Sprintf("place %s on %s", a.Name, a.NodeID))
	}
	for _, s := range p.Stop {
		out = append(out, fmt.Sprintf("stop %s: %s %s", s.AllocID, s.Description, s.ClientStatus))
	}
	for _, u := range p.Update {
		out = append(out, fmt.Sprintf("update %+v", *u))
	}
	for _, f := range p.Followups {
		out = append(out, fmt.Sprintf("follow up at %d", f.WaitUntil))
	}
	return strings.Join(out, "\n")
}

// rejections writes why a group failed: "filter: reason (nodes)" by line.
func rejections(p *structs.Plan, group string) string {
	m := p.Eval.FailedTGAllocs[group]
	if m == nil {
		return ""
	}
	var out []string
	for _, r := range m.Rejections {
		out = append(out, fmt.Sprintf("%s: %s (%d)", r.Filter, r.Reason, r.Nodes))
	}
	return strings.Join(out, "\n")
}

// blockedOn are the keys of the evaluation that waits.
func blockedOn(p *structs.Plan) []string {
	switch {
	case p.Blocked != nil:
		return p.Blocked.BlockedOn
	case p.Eval.Status == structs.EvalBlocked:
		return p.Eval.BlockedOn
	}
	return nil
}
