package scheduler

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
	"berth/structs/jobdiff"
)

// preview plans a job in a draft of the state, and returns its evaluation.
func (w *fixture) preview(j *structs.Job) (*Preview, *structs.Evaluation) {
	w.t.Helper()
	draft := w.s.Read().Draft()
	e := w.eval(j.ID)
	err := state.JobRegister(draft, &structs.JobRegisterRequest{Job: j, Eval: e, WriteOptions: w.now()})
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := DryRun(draft.ReadTx, state.Eval(draft, e.ID), w.clock)
	if err != nil {
		w.t.Fatal(err)
	}
	return p, e
}

// TestDryRun_EqualsTheRegistration plans random jobs in random clusters in a draft, and then registers them:
// the plan is the same, and the counts tell what happens to each allocation.
func TestDryRun_EqualsTheRegistration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFixture(t)
		c := randomJobs{fixture: w, t: t}
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			c.register(fmt.Sprintf("n%d", i))
		}
		for range rapid.IntRange(2, 12).Draw(t, "steps") {
			c.step()
			c.checkPreview(c.draw(rapid.SampledFrom(someJobs).Draw(t, "planned")))
		}
	})
}

func (c *randomJobs) checkPreview(j *structs.Job) {
	index := c.s.Index()
	preview, e := c.preview(j)
	if c.s.Index() != index {
		c.t.Fatal("the dry run has changed the state")
	}
	before := map[string]*structs.Allocation{}
	for a := range state.AllocsByJob(c.s.Read(), "default", j.ID) {
		before[a.ID] = a
	}
	do(c.fixture, state.JobRegister, &structs.JobRegisterRequest{Job: j, Eval: e, WriteOptions: c.now()})
	p := c.process(state.Eval(c.s.Read(), e.ID))
	if got, want := outline(preview.Plan), outline(p); !slices.Equal(got, want) {
		c.t.Fatalf("the preview has\n%s\nthe plan\n%s", got, want)
	}
	c.apply(p)
	queued := 0
	for _, n := range p.Eval.QueuedAllocations {
		queued += n
	}
	if queued > 0 {
		return // the counts have those without a place, too
	}
	got := map[string]structs.DesiredUpdates{}
	for group, u := range preview.Desired {
		if *u != (structs.DesiredUpdates{}) {
			got[group] = *u
		}
	}
	if want := c.happened(j, before); !reflect.DeepEqual(got, want) {
		c.t.Fatalf("the preview of %s counts %+v, but %+v has happened:\n%s", j.ID, got, want, describe(p))
	}
}

// outline describes a plan without its random IDs.
func outline(p *structs.Plan) []string {
	var lines []string
	for _, a := range p.Place {
		lines = append(lines, fmt.Sprintf("place %s on %s after %s", a.Name, a.NodeID, a.PreviousAllocation))
	}
	for _, s := range p.Stop {
		lines = append(lines, fmt.Sprintf("stop %s: %s %s", s.AllocID, s.Description, s.ClientStatus))
	}
	for _, u := range p.Update {
		lines = append(lines, fmt.Sprintf("update %s", u.AllocID))
	}
	for _, group := range slices.Sorted(maps.Keys(p.Eval.FailedTGAllocs)) {
		why := newAlloc.ReplaceAllString(rejections(p, group), "allocation")
		lines = append(lines, "rejected "+group+": "+why)
	}
	return lines
}

// newAlloc matches the name of an allocation in a reason: it may be one of the same plan.
var newAlloc = regexp.MustCompile(`allocation [0-9a-f]{8}`)

// happened counts the changes of the allocations of a job since before.
func (c *randomJobs) happened(
	j *structs.Job, before map[string]*structs.Allocation,
) map[string]structs.DesiredUpdates {
	counts := map[string]structs.DesiredUpdates{}
	tx := c.s.Read()
	for a := range state.AllocsByJob(tx, "default", j.ID) {
		u := counts[a.TaskGroup]
		old := before[a.ID]
		next := state.Alloc(tx, a.NextAllocation)
		replaced := next != nil && before[next.ID] == nil
		lost := a.ClientStatus == structs.AllocLost
		switch {
		case old == nil && a.DeploymentStatus.IsCanary() && a.PreviousAllocation == "":
			u.Canary++
		case old == nil:
			u.Place++ // taken back below, where it replaces one that ran
		case old.Terminal():
		case !a.Terminal() && a.JobVersion != old.JobVersion:
			u.InPlaceUpdate++
		case !a.Terminal():
			u.Ignore++
		case !replaced:
			u.Stop++
		case lost:
		case old.Migrate:
			u.Migrate++
			u.Place--
		default:
			u.DestructiveUpdate++
			u.Place--
		}
		counts[a.TaskGroup] = u
	}
	for group, u := range counts {
		if u == (structs.DesiredUpdates{}) {
			delete(counts, group)
		}
	}
	return counts
}

// A dry run is one plan of any size, though a log entry is not.
func TestDryRun_HasNoBound(t *testing.T) {
	w := newFixture(t)
	for n := range 30 {
		node := aNode(fmt.Sprintf("n%02d", n))
		node.NodeResources.CPU.CpuShares = 100_000
		node.NodeResources.Memory.MemoryMB = 100_000
		w.node(node)
	}
	p, _ := w.preview(aJob("web", structs.JobService, count(structs.MaxPlaced+500)))
	if len(p.Place) != structs.MaxPlaced+500 || p.Desired["g"].Place != structs.MaxPlaced+500 {
		t.Errorf("the dry run places %d and counts %+v", len(p.Place), p.Desired["g"])
	}
	if p.Eval.Status != structs.EvalComplete {
		t.Errorf("the evaluation is %s", p.Eval.Status)
	}
}

// The canaries of a new version are counted apart from the other new allocations.
func TestDryRun_CountsCanaries(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2", "n3")
	canaries := func(j *structs.Job) {
		j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 1, Canary: 2}
	}
	w.job(aJob("web", structs.JobService, count(3), canaries))
	w.run("web")
	p, _ := w.preview(aJob("web", structs.JobService, count(4), canaries, cpu(200)))
	if u := *p.Desired["g"]; u != (structs.DesiredUpdates{Canary: 2, Ignore: 3}) {
		t.Errorf("the preview counts %+v", u)
	}
}

// An update that finds no place counts at the pace of its group, as one that finds places does.
func TestDryRun_CountsUpdatesWithoutAPlaceAtTheirPace(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2", "n3")
	oneByOne := func(j *structs.Job) {
		j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 1}
	}
	w.job(aJob("web", structs.JobService, count(3), oneByOne))
	w.run("web")
	for _, size := range []int{200, 1_000_000} {
		p, _ := w.preview(aJob("web", structs.JobService, count(3), oneByOne, cpu(size)))
		if u := *p.Desired["g"]; u != (structs.DesiredUpdates{DestructiveUpdate: 1, Ignore: 2}) {
			t.Errorf("the preview counts %+v for updates to %d MHz", u, size)
		}
	}
}

// Updates whose predecessors stop for one another, because the new version uses their volume in another way,
// all count.
func TestDryRun_CountsUpdatesThatStopForOneAnother(t *testing.T) {
	w := newFixture(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		w.node(aNode(id), half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController))
	}
	w.volume("share", "hostpath")
	version := func(mode structs.CSIAccessMode) *structs.Job {
		return aJob("web", structs.JobService, count(3), volume("share", mode, false), func(j *structs.Job) {
			j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 3}
		})
	}
	w.job(version(structs.CSIMultiNodeReader))
	w.run("web")
	p, _ := w.preview(version(structs.CSIMultiNodeMultipleWriter))
	u := *p.Desired["g"]
	if len(p.Plan.Stop) != 3 || u != (structs.DesiredUpdates{DestructiveUpdate: 3}) {
		t.Errorf("the preview counts %+v for %d allocations that stop", u, len(p.Plan.Stop))
	}
}

// The group that displaces allocations of other jobs counts them, and the preview lists them.
func TestDryRun_CountsPreemptions(t *testing.T) {
	w := newFixture(t)
	w.preempting()
	w.nodes("n1")
	for _, id := range []string{"a", "b"} {
		w.job(aJob(id, structs.JobBatch, priority(20), cpu(400)))
		w.run(id)
	}
	p, _ := w.preview(aJob("high", structs.JobService, priority(50), cpu(900)))
	if u := *p.Desired["g"]; u != (structs.DesiredUpdates{Place: 1, Preemptions: 2}) {
		t.Errorf("the preview counts %+v", u)
	}
	var victims []string
	for _, a := range p.Preempted {
		victims = append(victims, a.JobID+" "+a.JobType)
	}
	slices.Sort(victims)
	if !slices.Equal(victims, []string{"a batch", "b batch"}) {
		t.Errorf("the preview displaces %q", victims)
	}
}

func TestAnnotate_NamesTheEffects(t *testing.T) {
	old := aJob("web", structs.JobService)
	old.TaskGroups = append(old.TaskGroups, &structs.TaskGroup{Name: "gone", Count: 1})
	now := aJob("web", structs.JobService, count(12), func(j *structs.Job) {
		g := j.TaskGroups[0]
		g.Tasks[0].Env = map[string]string{"A": "1"}
		g.Tasks = append(g.Tasks, &structs.Task{Name: "side", Driver: "exec"})
	})
	diff := jobdiff.Compare(old, now, false)
	AnnotateChanges(diff, old, now, map[string]*structs.DesiredUpdates{
		"g":    {Place: 11, DestructiveUpdate: 1},
		"gone": {Stop: 1},
	})
	g := diff.TaskGroups[0]
	want := map[string]uint64{structs.UpdateCreate: 11, structs.UpdateDestructive: 1}
	if !reflect.DeepEqual(g.Updates, want) || diff.TaskGroups[1].Updates[structs.UpdateDestroy] != 1 {
		t.Errorf("the updates are %v and %v", g.Updates, diff.TaskGroups[1].Updates)
	}
	checkNote := func(got []string, want string) {
		t.Helper()
		if len(got) != 1 || got[0] != want {
			t.Errorf("got the annotations %q, want %q", got, want)
		}
	}
	checkNote(g.Fields[0].Annotations, forcesCreate)
	checkNote(g.Tasks[0].Annotations, forcesDestructive)
	checkNote(g.Tasks[1].Annotations, forcesDestructive)

	back := jobdiff.Compare(now, old, false)
	AnnotateChanges(back, now, old, nil)
	checkNote(back.TaskGroups[0].Fields[0].Annotations, forcesDestroy)
	checkNote(back.TaskGroups[0].Tasks[1].Annotations, forcesDestructive)

	moved := aJob("web", structs.JobService, func(j *structs.Job) {
		j.TaskGroups[0].Tasks[0].Constraints = []*structs.Constraint{{LTarget: "${meta.rack}", RTarget: "r1",
			Operand: "="}}
	})
	inPlace := jobdiff.Compare(old, moved, false)
	AnnotateChanges(inPlace, old, moved, nil)
	checkNote(inPlace.TaskGroups[0].Tasks[0].Annotations, forcesInPlace)
}
