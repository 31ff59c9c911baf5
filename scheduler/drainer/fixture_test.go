package drainer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// fleet is a fleet with nodes that drain.
type fleet struct {
	*schedtest.Fleet
	log    []string          // what the drains did, a line each
	forced map[string]string // by node, the volumes of those whose plugins stopped by force
}

func newFleet(t rapid.TB, nodes int) *fleet {
	return &fleet{Fleet: schedtest.New(t, nodes), forced: map[string]string{}}
}

// register adds a job and lets its allocations run for long enough.
func (f *fleet) register(id, kind string, count int, edits ...func(*structs.TaskGroup)) {
	f.T.Helper()
	f.Register(schedtest.Job(id, kind, count, edits...))
	f.tick()
	f.tick()
	f.Clock = f.Clock.Add(time.Minute)
	f.Tick()
}

func plugin(g *structs.TaskGroup) {
	g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: structs.CSIPluginNode}
}

func (f *fleet) drain(node string, spec structs.DrainSpec) {
	f.T.Helper()
	schedtest.Do(f.Fleet, state.NodeDrain, &structs.NodeDrainRequest{
		NodeID:       node,
		DrainSpec:    &spec,
		WriteOptions: f.Now(),
	})
}

// tick lets the drains take a step, and a second pass.
func (f *fleet) tick() {
	f.T.Helper()
	f.takeStep()
	f.Tick()
}

func (f *fleet) takeStep() {
	f.T.Helper()
	step := Next(f.Store.Read(), f.Clock)
	for _, id := range step.Migrate {
		a := state.Alloc(f.Store.Read(), id)
		f.log = append(f.log, fmt.Sprintf("%s of %s moves", a.Name, a.NodeID))
	}
	maps.Copy(f.forced, step.ForcedPlugins)
	for _, n := range step.Ended {
		f.log = append(f.log, n.NodeID+" is drained")
	}
	if len(step.Migrate) > 0 {
		schedtest.Do(f.Fleet, state.AllocsMigrate, &structs.AllocsMigrateRequest{
			AllocIDs:     step.Migrate,
			WriteOptions: f.Now(),
		})
	}
	if len(step.Ended) > 0 {
		schedtest.Do(f.Fleet, state.NodeDrained, &structs.NodeDrainedUpdate{
			Nodes:        step.Ended,
			WriteOptions: f.Now(),
		})
	}
}

// on lists the jobs of the allocations on a node that have not ended.
func (f *fleet) on(node string) (jobs []string) {
	for a := range state.AllocsByNode(f.Store.Read(), node) {
		if !a.ClientTerminal() {
			jobs = append(jobs, a.JobID)
		}
	}
	slices.Sort(jobs)
	return jobs
}

func (f *fleet) draining(node string) bool {
	return state.Node(f.Store.Read(), node).DrainStrategy != nil
}

// until ticks until a condition holds, 200 times at most.
func (f *fleet) until(what string, holds func() bool) {
	f.T.Helper()
	for range 200 {
		if holds() {
			return
		}
		f.tick()
	}
	f.T.Fatalf("%s: not after 200 seconds; the drains did:\n%s", what, strings.Join(f.log, "\n"))
}

// reasons joins what the drain of a node waits for.
func (f *fleet) reasons(node string) string {
	var all []string
	for _, w := range Waits(f.Store.Read(), state.Node(f.Store.Read(), node), f.Clock) {
		all = append(all, w.JobID+": "+w.Reason)
	}
	return strings.Join(all, "\n")
}
