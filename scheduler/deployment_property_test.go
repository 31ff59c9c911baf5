package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/validate"
)

// TestDeployments_End changes jobs with volumes at random: their volumes, modes, counts and strategies, while
// allocations become healthy or unhealthy or fail, nodes come and go, and operators promote, pause, fail and
// go back to earlier versions. Then everything works: each deployment ends, with success if none of its
// allocations was unhealthy. So no update waits for itself, unless its predecessors have a volume that it
// needs: then it ends after the job was stopped and run again.
func TestDeployments_End(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &randomDeployments{deployments: deployments{newFixture(t)}, t: t}
		d.mayFail = rapid.Bool().Draw(t, "may fail")
		for _, id := range []string{"n1", "n2", "n3"} {
			d.node(aNode(id), half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController))
		}
		for _, id := range deployedVolumes {
			d.volume(id, "hostpath")
		}
		d.change()
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "late plan") == 0 {
				d.stepBeforePlan()
			} else {
				d.step()
			}
			d.settle()
		}
		d.finish()
		d.checkNewest()
	})
}

var deployedVolumes = []string{
	"a", "b", "share", "data[0]", "data[1]", "data[2]", "more[0]", "more[1]", "more[2]",
}

type randomDeployments struct {
	deployments
	t       *rapid.T
	mayFail bool
	fails   bool // allocations become unhealthy
}

// change registers a version of the job, with two groups that use the same volumes.
func (d *randomDeployments) change() {
	t := d.t
	j := aJob("web", structs.JobService, count(rapid.IntRange(0, 3).Draw(t, "count")),
		cpu(rapid.IntRange(1, 100).Draw(t, "cpu")))
	first := j.TaskGroups[0]
	second := *first
	second.Name = "h"
	second.Count = rapid.IntRange(0, 2).Draw(t, "second count")
	j.TaskGroups = append(j.TaskGroups, &second)
	mode := rapid.SampledFrom([]structs.CSIAccessMode{
		structs.CSIMultiNodeReader, structs.CSIMultiNodeMultipleWriter}).Draw(t, "mode")
	for _, g := range j.TaskGroups {
		u := structs.DefaultUpdateStrategy()
		u.MaxParallel = rapid.IntRange(0, 3).Draw(t, "max_parallel")
		u.Canary = rapid.IntRange(0, 2).Draw(t, "canary")
		u.AutoPromote = u.Canary > 0 && rapid.Bool().Draw(t, "auto_promote")
		u.AutoRevert = rapid.Bool().Draw(t, "auto_revert")
		u.ProgressDeadline = rapid.SampledFrom([]time.Duration{0, u.ProgressDeadline}).Draw(t, "progress_deadline")
		g.Update = &u
		g.ReschedulePolicy = rapid.SampledFrom(deployedPolicies(g)).Draw(t, "reschedule")
		g.Volumes = d.randomVolumes(g, mode)
	}
	if v, w := first.Volumes["v"], second.Volumes["v"]; v != nil && w != nil && v.Source == w.Source &&
		v.Source != "share" {
		second.Volumes = nil // a version that excludes itself never runs
	}
	// Two registrations at once may both pass the check of canaries.
	raced := rapid.Bool().Draw(t, "raced")
	if validate.Job(j) == nil && (raced || state.CanaryConflict(d.s.Read(), j, j.TaskGroups) == "") {
		d.job(j)
	}
}

// deployedPolicies returns the policies of a group of which one is drawn: its own, none, and one more try.
func deployedPolicies(g *structs.TaskGroup) []*structs.ReschedulePolicy {
	return []*structs.ReschedulePolicy{g.ReschedulePolicy, {}, {
		Attempts:      1,
		Interval:      time.Hour,
		Delay:         10 * time.Second,
		DelayFunction: structs.RescheduleConstant,
	}}
}

// revertAtRandom goes back to a version as a rollback does, which checks no canaries.
func (d *randomDeployments) revertAtRandom() {
	current := state.Job(d.s.Read(), "default", "web")
	if current == nil {
		return
	}
	var versions []uint64
	for j := range state.JobVersions(d.s.Read(), "default", "web") {
		if j.Version != current.Version {
			versions = append(versions, j.Version)
		}
	}
	if len(versions) > 0 {
		d.revert(rapid.SampledFrom(versions).Draw(d.t, "version"))
	}
}

func (d *randomDeployments) randomVolumes(
	g *structs.TaskGroup, mode structs.CSIAccessMode,
) map[string]*structs.VolumeRequest {
	t := d.t
	r := &structs.VolumeRequest{Name: "v", Type: structs.VolumeTypeCSI, AttachmentMode: structs.CSIFileSystem}
	switch rapid.IntRange(0, 3).Draw(t, "volume") {
	case 0:
		return nil
	case 1:
		r.Source = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")
		r.AccessMode = structs.CSISingleNodeWriter
		g.Count = min(g.Count, 1)
	case 2:
		r.Source = rapid.SampledFrom([]string{"data", "more"}).Draw(t, "source")
		r.AccessMode = structs.CSISingleNodeWriter
		r.PerAlloc = true
	case 3:
		r.Source = "share"
		r.AccessMode = mode
		r.ReadOnly = r.AccessMode.ReaderOnly()
	}
	return map[string]*structs.VolumeRequest{"v": r}
}

func (d *randomDeployments) step() {
	t := d.t
	node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
	d.clock = d.clock.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds")) * time.Second)
	what := rapid.IntRange(0, 11).Draw(t, "what")
	if what >= 4 && what <= 6 && !d.mayFail {
		what = 0
	}
	switch what {
	case 0, 1:
		d.change()
	case 2:
		d.status(node, rapid.SampledFrom([]string{structs.NodeReady, structs.NodeDown}).Draw(t, "status"))
	case 3:
		d.operateAtRandom()
	case 4:
		d.fails = true
		d.reportOne(false, structs.AllocRunning)
	case 5:
		d.fails = true
		d.reportOne(false, structs.AllocFailed)
	case 6:
		d.fails = true
		d.failHealthy()
	case 7:
		d.passDeadlines()
	case 8:
		d.revertAtRandom()
	default:
		d.agents()
	}
}

// stepBeforePlan makes a step between the making of a plan and its entry.
func (d *randomDeployments) stepBeforePlan() {
	p := d.process(d.eval("web"))
	d.step()
	p.WriteOptions = d.now()
	do(d.fixture, state.PlanApply, p)
}

// operateAtRandom performs a request of an operator, which may be rejected.
func (d *randomDeployments) operateAtRandom() {
	row := state.LatestDeployment(d.s.Read(), "default", "web")
	if row == nil {
		return
	}
	name := rapid.SampledFrom([]string{"promote", "pause", "resume", "fail"}).Draw(d.t, "operation")
	_ = d.operateOn(row.ID, name)
}

// reportOne reports an allocation that runs.
func (d *randomDeployments) reportOne(healthy bool, status string) {
	live := d.allocs("web")
	if len(live) == 0 {
		return
	}
	a := rapid.SampledFrom(live).Draw(d.t, "allocation")
	d.client(a, structs.AllocRunning)
	d.health(a, healthy, status)
}

// failHealthy fails an allocation that was healthy: it keeps its health.
func (d *randomDeployments) failHealthy() {
	live := d.allocs("web")
	if len(live) == 0 {
		return
	}
	a := rapid.SampledFrom(live).Draw(d.t, "allocation")
	d.health(a, true, structs.AllocRunning)
	d.client(a, structs.AllocFailed)
}

// agents do the work of all nodes: stopped allocations end and release their volumes, others claim theirs. An
// allocation is healthy once it has all of them.
func (d *randomDeployments) agents() {
	for a := range state.AllocsByJob(d.s.Read(), "default", "web") {
		if a.ServerTerminal() && !a.ClientTerminal() {
			d.client(a, structs.AllocComplete)
		}
		if state.Alloc(d.s.Read(), a.ID).ClientTerminal() {
			d.release(a)
		}
	}
	for _, a := range d.allocs("web") {
		if state.Node(d.s.Read(), a.NodeID).Lost() {
			continue
		}
		d.claim(a)
		waits := false
		for c := range csi.ClaimsByAlloc(d.s.Read(), a.ID) {
			waits = waits || c.State != structs.ClaimGranted
		}
		if !waits {
			d.health(a, true, structs.AllocRunning)
		}
	}
}

func (d *randomDeployments) settle() {
	for range 3 {
		d.apply(d.process(d.eval("web")))
	}
}

// finish lets everything work until the deployment has ended.
func (d *randomDeployments) finish() {
	for _, id := range []string{"n1", "n2", "n3"} {
		d.status(id, structs.NodeReady)
	}
	active := func() *structs.Deployment {
		return state.ActiveDeployment(d.s.Read(), "default", "web")
	}
	d.work()
	if d.waitsForItself() {
		d.runAgain()
		d.work()
	}
	if row := active(); row != nil && !d.fails {
		d.t.Fatalf("the deployment of version %d does not end\n%s", row.JobVersion, d.describeAll(row))
	}
	for range 10 {
		if active() == nil {
			return
		}
		d.clock = d.clock.Add(20 * time.Minute)
		d.passDeadlines()
		for range 20 {
			d.settle()
			d.agents()
		}
		if row := active(); row != nil {
			_ = d.operateOn(row.ID, "promote")
		}
	}
	if row := active(); row != nil {
		d.t.Fatalf("the deployment of version %d does not end at its deadline\n%s", row.JobVersion, d.describeAll(row))
	}
}

// work lets everything work for half an hour, and promotes and resumes.
func (d *randomDeployments) work() {
	for range 30 {
		row := state.ActiveDeployment(d.s.Read(), "default", "web")
		if row != nil {
			_ = d.operateOn(row.ID, "resume")
			_ = d.operateOn(row.ID, "promote")
		}
		d.clock = d.clock.Add(time.Minute)
		d.settle()
		d.agents()
		d.settle()
	}
}

// waitsForItself reports whether an allocation of an older version excludes the newest one from a volume.
func (d *randomDeployments) waitsForItself() bool {
	j := state.Job(d.s.Read(), "default", "web")
	if j == nil {
		return false
	}
	for _, a := range d.allocs("web") {
		for _, has := range a.CSIVolumes {
			excludes := func(u structs.CSIVolumeUse) bool {
				return u.VolumeID == has.VolumeID && u.Class().Conflicts(has.Class())
			}
			for _, g := range j.TaskGroups {
				for index := range g.Count {
					if a.JobVersion != j.Version && slices.ContainsFunc(g.CSIUses(index, ""), excludes) {
						return true
					}
				}
			}
		}
	}
	return false
}

// runAgain stops the job, and runs its newest version once its allocations have ended.
func (d *randomDeployments) runAgain() {
	j := state.Job(d.s.Read(), "default", "web").Copy()
	d.stopJob("web")
	d.agents()
	j.Stop = false
	d.job(j)
}

// checkNewest checks that each group has its count in the newest version in the end: if its deployment was
// successful, and always if none tracks it.
func (d *randomDeployments) checkNewest() {
	j := state.Job(d.s.Read(), "default", "web")
	if d.fails || j == nil {
		return
	}
	for range 10 {
		d.clock = d.clock.Add(time.Minute)
		d.settle()
		d.agents()
	}
	row := state.LatestDeployment(d.s.Read(), "default", "web")
	for _, g := range j.TaskGroups {
		tracked := row != nil && row.JobVersion == j.Version && row.Group(g.Name) != nil
		if tracked && row.Status != structs.DeploymentSuccessful {
			continue
		}
		newest := 0
		for _, a := range d.allocs("web") {
			if a.TaskGroup == g.Name && a.JobVersion == j.Version {
				newest++
			}
		}
		if newest != g.Count {
			d.t.Fatalf("group %s has %d allocations of version %d, want %d\n%s",
				g.Name, newest, j.Version, g.Count, d.describe())
		}
	}
}

func (d *randomDeployments) describeAll(row *structs.Deployment) string {
	text := row.Status + ": " + row.StatusDescription
	for name, s := range row.TaskGroups {
		text += "\n" + name + ": " + describeState(s)
	}
	p := d.process(d.eval("web"))
	return strings.Join([]string{
		text, d.describe(), describe(p), rejections(p, "g"), rejections(p, "h"),
	}, "\n")
}
