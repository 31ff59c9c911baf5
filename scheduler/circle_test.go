package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
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
	x.applyAny(p)
	return len(p.Stop)
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
	for e := range state.ReadyEvals(x.s.Read()) {
		x.applyAny(x.process(e))
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
	for e := range state.LaterEvals(x.s.Read()) {
		if x.index == before {
			x.clock = time.Unix(0, e.WaitUntil)
			x.applyAny(x.process(e))
		}
		break
	}
	return x.index > before
}

// applyAny applies a plan, which may be refused.
func (x *exchange) applyAny(p *structs.Plan) {
	x.t.Helper()
	p.WriteOptions = x.now()
	do(x.fixture, state.PlanApply, p)
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

// Two groups of a job exchange something, and three do so in a circle.
func TestUpdate_ExchangesBetweenGroups(t *testing.T) {
	for kind := range exclusive {
		for _, jobType := range []string{structs.JobService, structs.JobSystem, structs.JobBatch} {
			t.Run(kind+" "+jobType, func(t *testing.T) {
				x := newExchange(t, kind)
				x.register(x.version("a", jobType, 0, 1))
				x.settle()
				x.checkNewest("a")
				x.register(x.version("a", jobType, 1, 0))
				x.settle()
				x.checkNewest("a")
				x.register(x.version("a", jobType, 1, 0, 2))
				x.settle()
				stops := x.register(x.version("a", jobType, 0, 2, 1))
				if kind != "CSI volume" && stops != 2 { // the first of the circle, and the one that it sets free
					t.Errorf("%d allocations stop at first", stops)
				}
				x.settle()
				x.checkNewest("a")
			})
		}
	}
}

// Two jobs exchange something: the allocation of the second one stops first. Until then the first
// one keeps its own.
func TestUpdate_ExchangesBetweenJobs(t *testing.T) {
	for kind := range exclusive {
		for _, jobType := range []string{structs.JobService, structs.JobSystem, structs.JobBatch} {
			t.Run(kind+" "+jobType, func(t *testing.T) {
				x := newExchange(t, kind)
				for i, id := range []string{"a", "b", "c"} {
					x.register(x.version(id, jobType, i))
				}
				x.settle()
				for i, id := range []string{"a", "b", "c"} {
					stops := x.register(x.version(id, jobType, (i+1)%3))
					if want := i == 2; (stops > 0) != want {
						t.Errorf("job %s: %d allocations stop, want any: %v", id, stops, want)
					}
					if i < 2 {
						x.settle()
						if live := x.allocs(id); len(live) != 1 || live[0].JobVersion != 0 {
							t.Fatalf("job %s: %d allocations while it waits", id, len(live))
						}
					}
				}
				x.settle()
				x.checkNewest("a", "b", "c")
			})
		}
	}
}

// Allocations that have not claimed their volumes yet are to have them.
func TestUpdate_ExchangesVolumesBeforeTheyAreClaimed(t *testing.T) {
	x := newExchange(t, "CSI volume")
	for i, id := range []string{"a", "b"} {
		x.register(x.version(id, structs.JobService, i))
	}
	x.register(x.version("a", structs.JobService, 1))
	x.register(x.version("b", structs.JobService, 0))
	x.settle()
	x.checkNewest("a", "b")
}

// A search compiles the group of another job once for all its allocations.
func TestUpdate_CompilesAnotherGroupOnce(t *testing.T) {
	x := newExchange(t, "port")
	of := func(id string, size [2]int) *structs.Job {
		j := x.sized(id, structs.JobService, size)
		j.TaskGroups[0].Count = 3
		return j
	}
	x.register(of("a", [2]int{100, 200}))
	x.register(x.sized("b", structs.JobService, [2]int{600, 100}))
	x.settle()
	x.register(of("a", [2]int{400, 100}))
	j := x.sized("b", structs.JobService, [2]int{100, 800})
	x.job(j)
	p, err := newPlanner(x.s.Read(), x.eval("b"), x.clock, options{enough: enough})
	if err != nil {
		t.Fatal(err)
	}
	p.decide()
	w := p.placements[0]
	p.stopAlloc(w.prev, replacedReason, "")
	c := p.newCircle(w.prev, w.plan)
	c.findOthers()
	plans := map[*groupPlan]int{}
	for _, m := range c.others {
		plans[m.plan]++
	}
	if len(c.others) != 3 || len(plans) != 1 {
		t.Errorf("%d allocations of another job have %d plans, want 3 with one", len(c.others), len(plans))
	}
}

// The groups exchange their ports on one node after the other.
func TestUpdate_ExchangesAtItsPace(t *testing.T) {
	x := newExchange(t, "port")
	x.node(withPorts("n2", 1))
	x.register(x.version("a", structs.JobSystem, 0, 1))
	x.settle()
	if stops := x.register(x.version("a", structs.JobSystem, 1, 0)); stops != 2 {
		t.Errorf("%d allocations stop at first, want one of each group", stops)
	}
	x.settle()
	x.wantNewest("a", 4)
}

// The plans of both jobs are made on one state: neither knows of the other.
func TestUpdate_ExchangesBetweenJobsAtOnce(t *testing.T) {
	x := newExchange(t, "port")
	x.register(x.version("a", structs.JobService, 0))
	x.register(x.version("b", structs.JobService, 1))
	x.settle()
	for i, id := range []string{"b", "a"} {
		j := x.version(id, structs.JobService, i)
		do(x.fixture, state.JobRegister, &structs.JobRegisterRequest{
			Job:          j,
			Eval:         x.eval(id),
			WriteOptions: x.now(),
		})
	}
	var plans []*structs.Plan
	for e := range state.ReadyEvals(x.s.Read()) {
		plans = append(plans, x.process(e))
	}
	for _, p := range plans {
		x.applyAny(p)
	}
	x.settle()
	x.checkNewest("a", "b")
}

// An allocation keeps running if the other one will not go, or goes by itself: its job has no newer version,
// or wants another port, or is stopped, or its deployment is paused or has failed.
func TestUpdate_StopsNoneForOthersThatStay(t *testing.T) {
	for name, other := range map[string]func(x *exchange){
		"no newer version": func(*exchange) {},
		"another port":     func(x *exchange) { x.register(x.version("b", structs.JobService, 3)) },
		"the same port":    func(x *exchange) { x.register(x.version("b", structs.JobService, 1)) },
		"paused": func(x *exchange) {
			x.register(x.version("b", structs.JobService, 0))
			x.deploymentStatus("b", structs.DeploymentPaused)
		},
		"stopped": func(x *exchange) {
			x.register(x.version("b", structs.JobBatch, 0))
			do(x.fixture, state.JobDeregister, &structs.JobDeregisterRequest{
				JobID:        "b",
				Eval:         x.eval("b"),
				WriteOptions: x.now(),
			})
		},
		"failed": func(x *exchange) {
			x.register(x.version("b", structs.JobService, 0))
			x.deploymentStatus("b", structs.DeploymentFailed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newExchange(t, "port")
			x.register(x.version("a", structs.JobService, 0))
			x.register(x.version("b", structs.JobService, 1))
			x.settle()
			other(x)
			stops := x.register(x.version("a", structs.JobService, 1))
			if live := x.allocs("a"); stops > 0 || len(live) != 1 || live[0].JobVersion != 0 {
				t.Errorf("%d allocations stop", stops)
			}
		})
	}
}

// deploymentStatus changes the newest deployment of a job, and evaluates the job.
func (x *exchange) deploymentStatus(job, status string) {
	x.t.Helper()
	p := &structs.DeploymentStatusRequest{WriteOptions: x.now()}
	p.DeploymentID = state.LatestDeployment(x.s.Read(), "default", job).ID
	p.Status = status
	do(x.fixture, state.DeploymentStatus, p)
	x.apply(x.process(x.eval(job)))
}

// TestUpdate_ExchangesAtRandom lets jobs change what their groups demand at random, also so that not all can
// have it. In the end all demands differ, and each group runs its newest version.
func TestUpdate_ExchangesAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(slices.Sorted(maps.Keys(exclusive))).Draw(t, "kind")
		x := newExchange(t, kind)
		jobs := []string{"a", "b"}
		kinds := map[string]string{}
		types := rapid.SampledFrom([]string{structs.JobService, structs.JobSystem, structs.JobBatch})
		for _, id := range jobs {
			kinds[id] = types.Draw(t, "type")
		}
		change := func(id string, things []int) {
			x.register(x.version(id, kinds[id], things...))
		}
		for range rapid.IntRange(0, 6).Draw(t, "steps") {
			things := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "demands")
			change(rapid.SampledFrom(jobs).Draw(t, "job"), things[:2])
			if rapid.Bool().Draw(t, "settles") {
				x.settle()
			} else if rapid.Bool().Draw(t, "agents work") {
				x.runAgents()
			}
		}
		things := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "last demands")
		change("a", things[:2])
		change("b", things[2:])
		x.settle()
		x.checkNewest(jobs...)
		if t.Failed() {
			t.FailNow()
		}
	})
}
