package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
)

// exclusive are the ways to demand something that one allocation of a node, or of the cluster, has: the thing
// with a number, from 0 to 3.
var exclusive = map[string]func(g *structs.TaskGroup, n int){
	"port": func(g *structs.TaskGroup, n int) {
		g.Networks = []*structs.NetworkResource{{
			ReservedPorts: []structs.Port{{Label: "http", Value: 8080 + n}},
		}}
	},
	"host volume": func(g *structs.TaskGroup, n int) {
		g.Volumes = map[string]*structs.VolumeRequest{"d": {
			Name:       "d",
			Type:       structs.VolumeTypeHost,
			Source:     fmt.Sprint("disk", n),
			AccessMode: structs.CSISingleNodeSingleWriter,
		}}
	},
	"CSI volume": func(g *structs.TaskGroup, n int) {
		g.Volumes = map[string]*structs.VolumeRequest{"d": {
			Name:           "d",
			Type:           structs.VolumeTypeCSI,
			Source:         fmt.Sprint("vol", n),
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}}
	},
	"device": func(g *structs.TaskGroup, n int) {
		resourcesOf(g).Devices = []*structs.RequestedDevice{{Name: fmt.Sprint("acme/gpu/x", n), Count: 1}}
	},
	"room": func(g *structs.TaskGroup, n int) { // most of one dimension of the node
		r := resourcesOf(g)
		switch n {
		case 0:
			r.CPU = 600
		case 1:
			r.MemoryMB = 600
		case 2:
			g.EphemeralDisk = &structs.EphemeralDisk{SizeMB: 6000}
		}
	},
}

func init() {
	exclusive["mixed"] = func(g *structs.TaskGroup, n int) {
		exclusive[[]string{"port", "device", "room", "host volume"}[n]](g, n)
	}
}

// resourcesOf gives a group a task of its own and returns the task's resources, which are few.
func resourcesOf(g *structs.TaskGroup) *structs.Resources {
	task := *g.Tasks[0]
	task.Resources = &structs.Resources{CPU: 100, MemoryMB: 100}
	g.Tasks = []*structs.Task{&task}
	g.EphemeralDisk = &structs.EphemeralDisk{SizeMB: 1000}
	return task.Resources
}

// exchange is a cluster of one node with things that one allocation at a time has.
type exchange struct {
	*fixture
	kind string
	late bool // allocations become healthy one by one, once nothing else is left to do

	atOnce bool // all evaluations that are due are processed on one state
}

func newExchange(t rapid.TB, kind string) *exchange {
	x := &exchange{fixture: newFixture(t), kind: kind}
	x.addNode("n1")
	for i := range 4 {
		x.volume(fmt.Sprint("vol", i), "hostpath")
	}
	return x
}

// addNode adds a node that has each of the things once.
func (x *exchange) addNode(id string) {
	x.t.Helper()
	n := withPorts(id, 1)
	n.HostVolumes = map[string]*structs.HostVolume{}
	for i := range 4 {
		n.HostVolumes[fmt.Sprint("disk", i)] = &structs.HostVolume{Path: fmt.Sprint("/", i)}
		d := withDevices(id, fmt.Sprint("acme/gpu/x", i), 1).NodeResources.Devices
		n.NodeResources.Devices = append(n.NodeResources.Devices, d...)
	}
	x.node(n, half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController))
}

// version is a job with a group g0, g1 and so on for each thing.
func (x *exchange) version(id, jobType string, things ...int) *structs.Job {
	return x.edited(id, jobType, len(things), func(g *structs.TaskGroup, i int) {
		exclusive[x.kind](g, things[i])
	})
}

// edited is a job with some groups, each of which edit changes.
func (x *exchange) edited(id, jobType string, n int, edit func(g *structs.TaskGroup, i int)) *structs.Job {
	return aJob(id, jobType, func(j *structs.Job) {
		first := *j.TaskGroups[0]
		j.TaskGroups = nil
		for i := range n {
			g := first
			g.Name = fmt.Sprint("g", i)
			edit(&g, i)
			j.TaskGroups = append(j.TaskGroups, &g)
		}
		if jobType == structs.JobSystem {
			inWaves(1, time.Minute)(j)
		}
	})
}

// register registers a job and evaluates it. It returns the number of allocations that the plan stops.
func (x *exchange) register(j *structs.Job) int {
	x.t.Helper()
	x.job(j)
	p := x.process(x.eval(j.ID))
	x.applyLate(p)
	return len(p.Stop)
}

// registerAtOnce registers jobs and evaluates them on one state: no plan knows of the others.
func (x *exchange) registerAtOnce(jobs ...*structs.Job) {
	x.t.Helper()
	for _, j := range jobs {
		x.submit(j, structs.NewID())
	}
	x.planAtOnce(slices.Collect(state.ReadyEvals(x.s.Read())))
}

// planAtOnce makes the plans of evaluations on one state, one for each job, and applies them.
func (x *exchange) planAtOnce(evals []*structs.Evaluation) {
	x.t.Helper()
	var plans []*structs.Plan
	planned := map[string]bool{}
	for _, e := range evals {
		if !planned[e.JobID] {
			planned[e.JobID] = true
			plans = append(plans, x.process(e))
		}
	}
	for _, p := range plans {
		x.applyLate(p)
	}
}

// settle lets nodes and servers work until nothing is left to do.
func (x *exchange) settle() {
	x.t.Helper()
	for range 400 {
		if !x.settleOnce() {
			return
		}
	}
	x.t.Fatal("the cluster does not settle")
}

// settleOnce does a part of what is left to do, and reports whether there was any.
func (x *exchange) settleOnce() bool {
	before := x.index
	ready := slices.Collect(state.ReadyEvals(x.s.Read()))
	if len(ready) > 0 {
		x.planSome(ready)
		return true
	}
	if state.UnblocksDue(x.s.Read()) {
		do(x.fixture, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: 1, WriteOptions: x.now()})
		return true
	}
	x.runAgents()
	if x.late && x.index == before {
		x.healOne()
	}
	later := slices.Collect(state.LaterEvals(x.s.Read()))
	if x.index == before && len(later) > 0 {
		next := later[0].WaitUntil
		x.clock = time.Unix(0, next)
		x.planSome(slices.DeleteFunc(later, func(e *structs.Evaluation) bool { return e.WaitUntil > next }))
	}
	return x.index > before
}

// planSome processes the first of some evaluations, or all.
func (x *exchange) planSome(evals []*structs.Evaluation) {
	if !x.atOnce {
		evals = evals[:1]
	}
	x.planAtOnce(evals)
}

// runAgents ends what is to end, and starts the rest once it has its volumes and waits for no other.
func (x *exchange) runAgents() {
	tx := x.s.Read()
	for a := range state.AllocsFrom(tx, structs.DefaultNamespace, "", state.Page{}) {
		switch {
		case a.ClientTerminal():
		case a.ServerTerminal():
			x.client(a, structs.AllocComplete)
			if len(a.CSIVolumes) > 0 {
				x.release(a)
			}
		case a.ClientStatus == structs.AllocPending:
			x.startAlloc(a)
		}
	}
}

func (x *exchange) startAlloc(a *structs.Allocation) {
	for id := range a.Awaits() {
		if other := state.Alloc(x.s.Read(), id); other != nil && !other.ClientTerminal() {
			return
		}
	}
	for _, u := range a.CSIVolumes {
		if state.Claim(x.s.Read(), a.Namespace, u.VolumeID, a.ID) == nil {
			x.claim(a)
		}
		if state.Claim(x.s.Read(), a.Namespace, u.VolumeID, a.ID).State != structs.ClaimGranted {
			return
		}
	}
	if x.late {
		x.client(a, structs.AllocRunning)
		return
	}
	x.heal(a)
}

// healOne reports an allocation that runs as healthy, if there is one that is not.
func (x *exchange) healOne() {
	for a := range state.AllocsFrom(x.s.Read(), structs.DefaultNamespace, "", state.Page{}) {
		if !a.Terminal() && a.DeploymentID != "" && !a.DeploymentStatus.IsHealthy() {
			x.heal(a)
			return
		}
	}
}

// heal reports an allocation as running and healthy.
func (x *exchange) heal(a *structs.Allocation) {
	x.t.Helper()
	healthy := true
	do(x.fixture, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		WriteOptions: x.now(),
		Allocs: []*structs.AllocClientUpdate{{
			ID:               a.ID,
			ClientStatus:     structs.AllocRunning,
			DeploymentID:     a.DeploymentID,
			DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: &healthy},
		}},
	})
}

// checkNewest checks that each group of the jobs runs one allocation of the newest version.
func (x *exchange) checkNewest(jobs ...string) {
	x.t.Helper()
	for _, id := range jobs {
		j := state.Job(x.s.Read(), "default", id)
		var got []string
		for _, a := range x.allocs(id) {
			got = append(got, fmt.Sprintf("%s=v%d %s", a.TaskGroup, a.JobVersion, a.ClientStatus))
		}
		var want []string
		for _, g := range j.TaskGroups {
			want = append(want, fmt.Sprintf("%s=v%d running", g.Name, j.Version))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			x.t.Errorf("job %s: %s, want %s", id, strings.Join(got, ", "), strings.Join(want, ", "))
		}
	}
}
