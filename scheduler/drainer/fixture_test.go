package drainer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"berth/scheduler"
	"berth/state"
	"berth/structs"
)

// fleet is a store, the scheduler, and nodes whose tasks start and end after a tick of a second. It checks
// the invariants of the store after each entry.
type fleet struct {
	t     rapid.TB
	s     *state.Store
	index uint64
	clock time.Time
	stuck map[string]bool // allocations that do not end
	log   []string        // what the drains did, a line each
}

func newFleet(t rapid.TB, nodes int) *fleet {
	f := &fleet{
		t:     t,
		s:     state.New(),
		index: 10,
		clock: time.Unix(1_700_000_000, 0),
		stuck: map[string]bool{},
	}
	for i := range nodes {
		id := fmt.Sprintf("n%d", i)
		do(f, state.NodeRegister, &structs.NodeRegisterRequest{
			Node: &structs.Node{
				ID:         id,
				Name:       id,
				SecretID:   "s",
				Datacenter: "dc1",
				Status:     structs.NodeReady,
				Drivers:    map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
				NodeResources: &structs.NodeResources{
					CPU:    structs.NodeCPUResources{CpuShares: 100000},
					Memory: structs.NodeMemoryResources{MemoryMB: 100000},
					Disk:   structs.NodeDiskResources{DiskMB: 100000},
				},
			},
			CSI: []*structs.CSIPluginInstance{{
				Kind: structs.CSIKindNode,
				CSIInfo: structs.CSIInfo{
					PluginID: "pl",
					Provider: "pl.csi",
					Healthy:  true,
					NodeInfo: &structs.CSINodeInfo{ID: "ext-" + id},
				},
			}},
			WriteOptions: f.now(),
		})
	}
	return f
}

func (f *fleet) now() structs.WriteOptions {
	return structs.WriteOptions{Now: f.clock.UnixNano()}
}

func do[P any](f *fleet, fn func(*state.WriteTx, *P) error, p *P) {
	f.t.Helper()
	f.index++
	err := f.s.Write(f.index, func(tx *state.WriteTx) error { return fn(tx, p) })
	if err != nil {
		f.t.Fatalf("at index %d: %v", f.index, err)
	}
	faults := state.Check(f.s.Read())
	if len(faults) > 0 {
		f.t.Fatalf("after index %d: %s", f.index, strings.Join(faults, "\n"))
	}
}

// register adds a job and lets its allocations run for long enough.
func (f *fleet) register(id, kind string, count int, edits ...func(*structs.TaskGroup)) {
	f.t.Helper()
	g := &structs.TaskGroup{
		Name:  "g",
		Count: count,
		Tasks: []*structs.Task{{
			Name:      "t",
			Driver:    "exec",
			Resources: &structs.Resources{CPU: 10, MemoryMB: 10},
		}},
	}
	for _, edit := range edits {
		edit(g)
	}
	do(f, state.JobRegister, &structs.JobRegisterRequest{
		Job: &structs.Job{
			ID:          id,
			Type:        kind,
			Priority:    50,
			Datacenters: []string{"dc1"},
			TaskGroups:  []*structs.TaskGroup{g},
		},
		Eval: &structs.Evaluation{
			ID:          structs.NewID(),
			JobID:       id,
			TriggeredBy: structs.TriggerJobRegister,
			Status:      structs.EvalPending,
		},
		WriteOptions: f.now(),
	})
	f.tick()
	f.tick()
	f.clock = f.clock.Add(time.Minute)
}

func plugin(g *structs.TaskGroup) {
	g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: structs.CSIPluginNode}
}

func (f *fleet) drain(node string, spec structs.DrainSpec) {
	f.t.Helper()
	do(f, state.NodeDrain, &structs.NodeDrainRequest{NodeID: node, DrainSpec: &spec, WriteOptions: f.now()})
}

// tick lets a second pass: the drains take a step, the scheduler processes all evaluations, and the nodes
// start and end allocations.
func (f *fleet) tick() {
	f.t.Helper()
	f.takeStep()
	for {
		evals := slices.Collect(state.ReadyEvals(f.s.Read()))
		if len(evals) == 0 {
			break
		}
		plan, err := scheduler.Process(f.s.Read(), evals[0], f.clock)
		if err != nil {
			f.t.Fatal(err)
		}
		plan.Now = f.clock.UnixNano()
		do(f, state.PlanApply, plan)
	}
	f.clock = f.clock.Add(time.Second)
	for n := range state.Nodes(f.s.Read()) {
		f.runNode(n.ID)
	}
}

func (f *fleet) takeStep() {
	f.t.Helper()
	step := Next(f.s.Read(), f.clock)
	for _, id := range step.Migrate {
		a := state.Alloc(f.s.Read(), id)
		f.log = append(f.log, fmt.Sprintf("%s of %s moves", a.Name, a.NodeID))
	}
	for _, n := range step.Ended {
		f.log = append(f.log, n.NodeID+" is drained")
	}
	if len(step.Migrate) > 0 {
		do(f, state.AllocsMigrate, &structs.AllocsMigrateRequest{AllocIDs: step.Migrate, WriteOptions: f.now()})
	}
	if len(step.Ended) > 0 {
		do(f, state.NodeDrained, &structs.NodeDrainedUpdate{Nodes: step.Ended, WriteOptions: f.now()})
	}
}

// runNode reports the next state of each allocation of a node.
func (f *fleet) runNode(node string) {
	var updates []*structs.AllocClientUpdate
	for a := range state.AllocsByNode(f.s.Read(), node) {
		switch {
		case a.ClientTerminal(), f.stuck[a.ID]:
		case a.ServerTerminal():
			updates = append(updates, &structs.AllocClientUpdate{ID: a.ID, ClientStatus: structs.AllocComplete})
		case a.ClientStatus == structs.AllocPending:
			updates = append(updates, &structs.AllocClientUpdate{
				ID:           a.ID,
				ClientStatus: structs.AllocRunning,
				TaskStates: map[string]*structs.TaskState{
					"t": {State: structs.TaskRunning, StartedAt: f.clock},
				},
			})
		}
	}
	if len(updates) > 0 {
		do(f, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			NodeID:       node,
			Allocs:       updates,
			WriteOptions: f.now(),
		})
	}
}

// on lists the jobs of the allocations on a node that have not ended.
func (f *fleet) on(node string) (jobs []string) {
	for a := range state.AllocsByNode(f.s.Read(), node) {
		if !a.ClientTerminal() {
			jobs = append(jobs, a.JobID)
		}
	}
	slices.Sort(jobs)
	return jobs
}

func (f *fleet) draining(node string) bool {
	return state.Node(f.s.Read(), node).DrainStrategy != nil
}

// until ticks until a condition holds, a hundred times at most.
func (f *fleet) until(what string, holds func() bool) {
	f.t.Helper()
	for range 100 {
		if holds() {
			return
		}
		f.tick()
	}
	f.t.Fatalf("%s: not after 100 seconds; the drains did:\n%s", what, strings.Join(f.log, "\n"))
}

// reasons joins what the drain of a node waits for.
func (f *fleet) reasons(node string) string {
	var all []string
	for _, w := range Waits(f.s.Read(), state.Node(f.s.Read(), node), f.clock) {
		all = append(all, w.JobID+": "+w.Reason)
	}
	return strings.Join(all, "\n")
}
