package scheduler

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/scheduler/drainer"
	"berth/scheduler/feasible"
	"berth/state"
	"berth/state/csi"
	"berth/state/lease"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// The transcripts of nodes that are away show the allocations of a job after each command, in the order of
// their placement, and the evaluations of a later time. Each command processes the evaluations that are due:
//
//	node ID                           a node registers, with the plugin hostpath
//	volume                            the volume vol is there
//	job [type=TYPE] [count=N] [RULE]  the job web registers; RULE has the arguments of disconnect, volume,
//	                                  canary and prefers=NODE
//	run                               the nodes that are there report all allocations as they run or end
//	report NAME STATUS, healthy NAME  the node of an allocation reports it
//	down ID, back ID                  a node loses the servers, and has them again
//	off ID                            an operator confirms that the machine of a node is off
//	drain ID                          a node drains at once, and gives its allocations up
//	stop NAME, stop                   an operator stops an allocation, or the job
//	wait TIME                         time passes
//	ahead                             the clocks are ahead, and a second passes
//	step TIME                         the cluster time follows them, or is set back
//	epochs                            the servers count the epochs of nodes
func TestAwayNode_Transcripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/away/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			c := &awayCluster{fixture: newFixture(t), names: map[string]string{}}
			kit.RunTranscript(t, path, *rewrite, c.step)
		})
	}
}

type awayCluster struct {
	*fixture
	names map[string]string // of allocations, by ID
	ahead time.Time         // when the clocks were found to be ahead
}

func (c *awayCluster) step(s *kit.TranscriptStep) string {
	arg := strings.Join(s.Args, " ")
	switch s.Name {
	case "node":
		c.node(aNode(arg), half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController))
	case "volume":
		c.volume("vol", "hostpath")
	case "job":
		c.register(s)
	case "run":
		c.runAll()
	case "healthy":
		a := c.named(arg)
		do(c.fixture, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			WriteOptions: c.now(),
			Allocs: []*structs.AllocClientUpdate{{ID: a.ID, ClientStatus: structs.AllocRunning,
				DeploymentID: a.DeploymentID, DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)}}},
		})
	case "report":
		c.client(c.named(s.Args[0]), s.Args[1])
	case "down":
		c.status(arg, structs.NodeDown)
	case "back":
		c.status(arg, structs.NodeReady)
	case "off":
		do(c.fixture, state.ConfirmLost, &cluster.NodeFenceRequest{
			NodeID: arg, By: "ann", Why: "it burns", WriteOptions: c.now()})
	case "drain":
		c.drain(arg)
	case "stop":
		c.stop(arg)
	case "wait":
		c.clock = c.clock.Add(c.duration(s))
	case "ahead":
		c.ahead = c.clock
		c.clock = c.clock.Add(time.Second)
	case "step":
		c.stepClock(c.ahead, c.duration(s))
	case "epochs":
		do(c.fixture, lease.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: 1})
	default:
		c.t.Fatalf("line %d: there is no command %s", s.Line, s.Name)
	}
	c.evaluate()
	return c.describe()
}

func (c *awayCluster) duration(s *kit.TranscriptStep) time.Duration {
	d, err := time.ParseDuration(strings.Join(s.Args, " "))
	if err != nil {
		c.t.Fatalf("line %d: %v", s.Line, err)
	}
	return d
}

func (c *awayCluster) register(s *kit.TranscriptStep) {
	n, err := strconv.Atoi(cmp.Or(s.Arg("count"), "1"))
	if err != nil {
		c.t.Fatalf("line %d: %v", s.Line, err)
	}
	rule := &structs.DisconnectStrategy{Reconcile: s.Arg("reconcile")}
	rule.LostAfter, _ = time.ParseDuration(s.Arg("lost_after"))
	if d, err := time.ParseDuration(s.Arg("stop_on_client_after")); err == nil {
		rule.StopOnClientAfter = &d
	}
	if s.Has("replace=false") {
		rule.Replace = new(false)
	}
	j := aJob("web", cmp.Or(s.Arg("type"), structs.JobService), count(n), func(j *structs.Job) {
		j.TaskGroups[0].Disconnect = rule
		j.TaskGroups[0].Tasks[0].Meta = map[string]string{"v": s.Arg("v")}
	})
	if node := s.Arg("prefers"); node != "" {
		j.TaskGroups[0].Affinities = []*structs.Affinity{{
			LTarget: "${node.unique.name}", Operand: "=", RTarget: "name-" + node, Weight: 100}}
	}
	if s.Has("canary") {
		j.TaskGroups[0].Update.Canary = 1
	}
	if s.Has("volume") {
		volume("vol", structs.CSISingleNodeWriter, false)(j)
	}
	c.job(j)
	c.apply(c.process(c.eval("web")))
}

func (c *awayCluster) stop(name string) {
	if name == "" {
		do(c.fixture, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: c.now()})
		c.apply(c.process(c.eval("web")))
		return
	}
	do(c.fixture, state.AllocStop, &structs.AllocStopRequest{
		AllocID: c.named(name).ID, WriteOptions: c.now()})
	c.apply(c.process(c.eval("web")))
}

// drain drains a node at once, and gives up what a step of the leader's loop gives up.
func (c *awayCluster) drain(node string) {
	do(c.fixture, state.NodeDrain, &structs.NodeDrainRequest{
		NodeID: node, DrainSpec: &structs.DrainSpec{Deadline: -1}, WriteOptions: c.now()})
	do(c.fixture, state.AllocsMigrate, &structs.AllocsMigrateRequest{
		AllocIDs: drainer.Next(c.s.Read(), c.clock).Migrate, WriteOptions: c.now()})
	c.apply(c.process(c.eval("web")))
}

// runAll lets the nodes that are there start, end and report their allocations. One gets its volumes first.
func (c *awayCluster) runAll() {
	c.clock = c.clock.Add(time.Second)
	for _, a := range c.all() {
		switch {
		case a.ClientTerminal() || state.Node(c.s.Read(), a.NodeID).Lost():
		case a.ServerTerminal():
			c.client(a, structs.AllocComplete)
			c.release(a)
		default:
			if len(a.CSIVolumes) > 0 {
				c.claim(a)
			}
			do(c.fixture, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
				WriteOptions: c.now(),
				Allocs: []*structs.AllocClientUpdate{{ID: a.ID, ClientStatus: structs.AllocRunning,
					TaskStates: c.tasksOf(a)}},
			})
		}
	}
}

// tasksOf returns the states of the tasks of an allocation, which runs since its first report.
func (c *awayCluster) tasksOf(a *structs.Allocation) map[string]*structs.TaskState {
	if len(a.TaskStates) > 0 {
		return a.TaskStates
	}
	return map[string]*structs.TaskState{"t": {State: structs.TaskRunning, StartedAt: c.clock.UTC()}}
}

// evaluate processes the evaluations that are due, until none is left.
func (c *awayCluster) evaluate() {
	for {
		var due *structs.Evaluation
		for e := range state.EvalsByJob(c.s.Read(), structs.DefaultNamespace, "web") {
			if due == nil && e.Status == structs.EvalPending && e.WaitUntil <= c.clock.UnixNano() {
				due = e
			}
		}
		if due == nil {
			return
		}
		c.apply(c.process(due))
	}
}

func (c *awayCluster) all() []*structs.Allocation {
	return slices.SortedFunc(state.AllocsByJob(c.s.Read(), structs.DefaultNamespace, "web"),
		func(a, b *structs.Allocation) int {
			return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Name, b.Name))
		})
}

func (c *awayCluster) named(name string) *structs.Allocation {
	for _, a := range c.all() {
		if c.names[a.ID] == name {
			return a
		}
	}
	c.t.Fatalf("there is no allocation %s", name)
	return nil
}

func (c *awayCluster) describe() string {
	var lines []string
	for _, a := range c.all() {
		if c.names[a.ID] == "" {
			c.names[a.ID] = fmt.Sprintf("a%d", len(c.names)+1)
		}
		line := fmt.Sprintf("%s: %d@%s %s, %s", c.names[a.ID], a.Index(), a.NodeID, a.DesiredStatus, a.ClientStatus)
		if a.ServerTerminal() {
			line += " (" + a.DesiredDescription + ")"
		}
		if a.NextAllocation != "" {
			line += ", replaced"
		}
		for claim := range csi.ClaimsByAlloc(c.s.Read(), a.ID) {
			line += fmt.Sprintf(", %s %s", claim.State, claim.VolumeID)
		}
		lines = append(lines, line)
	}
	if d := state.LatestDeployment(c.s.Read(), structs.DefaultNamespace, "web"); d != nil {
		g := d.TaskGroups["g"]
		lines = append(lines, fmt.Sprintf("deployment %s: %d of %d healthy", d.Status, g.HealthyAllocs, g.DesiredTotal))
	}
	var evals []string
	for e := range state.EvalsByJob(c.s.Read(), structs.DefaultNamespace, "web") {
		if e.Status == structs.EvalPending {
			evals = append(evals, fmt.Sprintf("evaluation in %s", time.Unix(0, e.WaitUntil).Sub(c.clock)))
		}
		if e.Status == structs.EvalBlocked {
			evals = append(evals, "evaluation blocked")
		}
	}
	slices.Sort(evals)
	return strings.Join(append(lines, evals...), "\n")
}

func TestAwayNode_IsMarkedOnce(t *testing.T) {
	c := &awayCluster{fixture: newFixture(t), names: map[string]string{}}
	c.node(aNode("n1"), half("hostpath", structs.CSIKindNode))
	c.job(aJob("web", structs.JobService, func(j *structs.Job) {
		j.TaskGroups[0].Disconnect = &structs.DisconnectStrategy{Replace: new(false)}
	}))
	c.apply(c.process(c.eval("web")))
	c.runAll()
	c.status("n1", structs.NodeDown)
	marks := c.process(c.eval("web"))
	if len(marks.Update) != 1 || !marks.Update[0].Unknown {
		t.Fatalf("the first plan has the updates %+v, want one that marks the allocation", marks.Update)
	}
	c.apply(marks)
	if again := c.process(c.eval("web")); len(again.Update) != 0 {
		t.Errorf("the next plan has the updates %+v", again.Update)
	}
}

func TestIsTakenBack_OnlyAnEndedReplacement(t *testing.T) {
	is := func(rule *structs.DisconnectStrategy, edit func(a, has *structs.Allocation)) bool {
		p := &planner{outlook: &feasible.Outlook{Job: &structs.Job{Version: 2}}}
		has := &structs.Allocation{JobVersion: 2, NextAllocation: "a"}
		has.CreateIndex = 7
		a := &structs.Allocation{JobVersion: 2, ClientStatus: structs.AllocFailed}
		a.CreateIndex = 8
		edit(a, has)
		return isTakenBack(p, rule, a, has)
	}
	rule := &structs.DisconnectStrategy{}
	if !is(rule, func(*structs.Allocation, *structs.Allocation) {}) {
		t.Fatal("an ended replacement of an allocation that is back is not taken back")
	}
	for name, edit := range map[string]func(a, has *structs.Allocation){
		"it runs":                  func(a, _ *structs.Allocation) { a.ClientStatus = structs.AllocRunning },
		"it is stopped":            func(a, _ *structs.Allocation) { a.DesiredStatus = structs.AllocDesiredStop },
		"it was replaced itself":   func(a, _ *structs.Allocation) { a.NextAllocation = "b" },
		"it has an older version":  func(a, _ *structs.Allocation) { a.JobVersion = 1 },
		"it was there before":      func(a, _ *structs.Allocation) { a.CreateIndex = 6 },
		"the other was not away":   func(_, has *structs.Allocation) { has.NextAllocation = "" },
		"both have older versions": func(a, has *structs.Allocation) { a.JobVersion, has.JobVersion = 1, 1 },
	} {
		if is(rule, edit) {
			t.Errorf("taken back, although %s", name)
		}
	}
	if is(nil, func(*structs.Allocation, *structs.Allocation) {}) {
		t.Error("taken back in a group without the block")
	}
}

// A node that is deleted does not come back to its allocations.
func TestLossOf_ADeletedNodeIsOff(t *testing.T) {
	if got := lossOf(nil, nil); !got.Lost || !got.Off {
		t.Errorf("got %+v", got)
	}
}
