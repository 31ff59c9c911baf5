package scheduler

import (
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
	"berth/test/kit"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts again")

// TestDeployments_Transcripts runs the transcripts of deployments. They describe each deployment after each
// step of its job.
func TestDeployments_Transcripts(t *testing.T) {
	files, err := filepath.Glob("testdata/deployments/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			d := &deployments{fixture: newFixture(t)}
			kit.RunTranscript(t, path, *rewrite, d.step)
		})
	}
}

// An evaluation names the deployment that its plan begins or continues.
func TestDeployment_IsNamedByItsEvaluations(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.job(aJob("web", structs.JobService, func(j *structs.Job) {
		j.TaskGroups[0].Update = &structs.UpdateStrategy{
			MaxParallel:      1,
			HealthCheck:      structs.HealthTaskStates,
			HealthyDeadline:  time.Minute,
			ProgressDeadline: time.Hour,
		}
	}))
	first := w.run("web")
	if first.Deployment == nil || first.Eval.DeploymentID != first.Deployment.ID {
		t.Errorf("the plan begins %+v, and its evaluation is %+v", first.Deployment, first.Eval)
	}
	again := w.run("web")
	if again.Deployment != nil || again.Eval.DeploymentID != first.Deployment.ID {
		t.Errorf("the next plan begins %+v, and its evaluation is %+v", again.Deployment, again.Eval)
	}
	w.job(aJob("once", structs.JobBatch))
	if id := w.run("once").Eval.DeploymentID; id != "" {
		t.Errorf("an evaluation without a deployment names %s", id)
	}
}

var hexID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// deployments is a cluster whose jobs the steps of a transcript change.
type deployments struct{ *fixture }

func (d *deployments) step(s *kit.TranscriptStep) string {
	switch s.Name {
	case "nodes": // names of nodes, each with the plugin hostpath
		for _, id := range s.Args {
			d.node(aNode(id), half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController))
		}
		return ""
	case "down": // a node, or that of an allocation
		node := s.Args[0]
		if a := d.labeled(node); a != nil {
			node = a.NodeID
		}
		d.status(node, structs.NodeDown)
	case "move": // an allocation, as a drain does it
		do(d.fixture, state.AllocsMigrate, &structs.AllocsMigrateRequest{
			AllocIDs:     []string{d.labeled(s.Args[0]).ID},
			WriteOptions: d.now(),
		})
	case "up":
		d.status(s.Args[0], structs.NodeReady)
		return ""
	case "volumes":
		for _, id := range s.Args {
			d.volume(id, "hostpath")
		}
		return ""
	case "job":
		d.job(d.spec(s))
	case "revert":
		version, err := strconv.ParseUint(s.Args[0], 10, 64)
		if err != nil {
			return err.Error()
		}
		d.revert(version)
	case "stop":
		do(d.fixture, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: d.now()})
	case "healthy", "unhealthy", "failed":
		d.report(s)
	case "wait":
		took, err := time.ParseDuration(s.Args[0])
		if err != nil {
			return err.Error()
		}
		d.clock = d.clock.Add(took)
		d.passDeadlines()
	default:
		if err := d.operate(s); err != nil {
			return "error: " + hexID.ReplaceAllString(err.Error(), "ID")
		}
	}
	d.plan()
	return d.describe()
}

// revert makes an earlier version of the job the newest one.
func (d *deployments) revert(version uint64) {
	do(d.fixture, state.JobRevert, &structs.JobRevertRequest{
		JobID:        "web",
		JobVersion:   version,
		WriteOptions: d.now(),
	})
}

// operate performs the step of an operator.
func (d *deployments) operate(s *kit.TranscriptStep) error {
	return d.operateOn(state.LatestDeployment(d.s.Read(), "default", "web").ID, s.Name, s.Args...)
}

func (d *deployments) operateOn(id, operation string, groups ...string) error {
	d.index++
	return d.s.Write(d.index, func(tx *state.WriteTx) error {
		status := &structs.DeploymentStatusRequest{WriteOptions: d.now()}
		status.DeploymentID = id
		switch operation {
		case "promote":
			return state.DeploymentPromote(tx, &structs.DeploymentPromoteRequest{
				DeploymentID: id, All: len(groups) == 0, Groups: groups, WriteOptions: d.now()})
		case "pause":
			status.Status = structs.DeploymentPaused
		case "resume":
			status.Status = structs.DeploymentRunning
		case "fail":
			status.Status = structs.DeploymentFailed
			status.StatusDescription = structs.DeploymentFailedByUser
		default:
			return fmt.Errorf("unknown step %s", operation)
		}
		return state.DeploymentStatus(tx, status)
	})
}

// spec is the job web with the arguments of a step.
func (d *deployments) spec(s *kit.TranscriptStep) *structs.Job {
	number := func(name string, def int) int {
		n, err := strconv.Atoi(s.Arg(name))
		if err != nil {
			return def
		}
		return n
	}
	j := aJob("web", structs.JobService, count(number("count", 1)), cpu(number("cpu", 100)))
	if source := s.Arg("volume"); source != "" {
		mode := structs.CSISingleNodeWriter
		if s.Arg("mode") != "" {
			mode = structs.CSIAccessMode(s.Arg("mode"))
		}
		volume(source, mode, s.Has("per_alloc"))(j)
	}
	u := j.TaskGroups[0].Update
	u.MaxParallel = number("max_parallel", 1)
	u.Canary = number("canary", 0)
	u.AutoRevert = s.Has("auto_revert")
	u.AutoPromote = s.Has("auto_promote")
	if s.Has("no_deadline") {
		u.ProgressDeadline = 0
	}
	defaults.Canonicalize(j)
	if err := validate.Job(j); err != nil {
		d.t.Fatal(err)
	}
	return j
}

// report is a report of a node: of the named allocations ("0", "1c" for a canary), or of all that run.
func (d *deployments) report(s *kit.TranscriptStep) {
	for _, a := range d.allocs("web") {
		name := allocLabel(a)
		if len(s.Args) > 0 && !slices.Contains(s.Args, name) {
			continue
		}
		if s.Name == "failed" {
			d.client(a, structs.AllocFailed)
		} else {
			d.health(a, s.Name == "healthy", structs.AllocRunning)
		}
	}
}

// health reports the health of an allocation.
func (d *deployments) health(a *structs.Allocation, healthy bool, status string) {
	do(d.fixture, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		WriteOptions: d.now(),
		Allocs: []*structs.AllocClientUpdate{{
			ID:               a.ID,
			ClientStatus:     status,
			DeploymentID:     a.DeploymentID,
			DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: &healthy},
		}},
	})
}

// passDeadlines does the work of the leader's loop.
func (d *deployments) passDeadlines() {
	for row := range state.ActiveDeployments(d.s.Read()) {
		due := state.DeploymentDeadline(d.s.Read(), row)
		if due.IsZero() || due.After(d.clock) {
			continue
		}
		p := &structs.DeploymentStatusRequest{WriteOptions: d.now()}
		p.DeploymentID = row.ID
		p.Status = structs.DeploymentFailed
		p.StatusDescription = structs.DeploymentFailedByDeadline
		do(d.fixture, state.DeploymentStatus, p)
	}
}

// plan evaluates the job until nothing changes, and lets the stopped allocations end.
func (d *deployments) plan() {
	for range 10 {
		p := d.process(d.eval("web"))
		d.apply(p)
		for a := range state.AllocsByJob(d.s.Read(), "default", "web") {
			if a.ServerTerminal() && !a.ClientTerminal() {
				d.client(a, structs.AllocComplete)
			}
		}
		if len(p.Place)+len(p.Stop)+len(p.Update)+len(p.DeploymentUpdates) == 0 {
			return
		}
	}
	d.t.Fatal("the plans of the job do not end")
}

// describe writes the deployment and the live allocations of the job.
func (d *deployments) describe() string {
	var b strings.Builder
	tx := d.s.Read()
	j := state.Job(tx, "default", "web")
	row := state.LatestDeployment(tx, "default", "web")
	switch {
	case row == nil:
		fmt.Fprintln(&b, "no deployment")
	default:
		s := row.Group("g")
		if s == nil {
			s = &structs.DeploymentState{}
		}
		fmt.Fprintf(&b, "version %d %s: %s\n", row.JobVersion, row.Status, row.StatusDescription)
		fmt.Fprintf(&b, "  %s", describeState(s))
		if !s.RequireProgressBy.IsZero() && row.Active() {
			fmt.Fprintf(&b, " deadline in %s", s.RequireProgressBy.Sub(d.clock))
		}
		fmt.Fprintln(&b)
	}
	if j.Stable {
		fmt.Fprintf(&b, "job version %d is stable\n", j.Version)
	}
	var allocs []string
	for _, a := range d.allocs("web") {
		allocs = append(allocs, fmt.Sprintf("%s=v%d%s", allocLabel(a), a.JobVersion, healthMark(a)))
	}
	slices.Sort(allocs)
	fmt.Fprintln(&b, strings.Join(allocs, " "))
	return b.String()
}

func describeState(s *structs.DeploymentState) string {
	text := fmt.Sprintf("desired %d placed %d healthy %d unhealthy %d", s.DesiredTotal, s.PlacedAllocs,
		s.HealthyAllocs, s.UnhealthyAllocs)
	if s.DesiredCanaries > 0 {
		text += fmt.Sprintf(" canaries %d/%d promoted %v", len(s.PlacedCanaries), s.DesiredCanaries, s.Promoted)
	}
	return text
}

// labeled returns the live allocation with a label, nil if there is none.
func (d *deployments) labeled(label string) *structs.Allocation {
	for _, a := range d.allocs("web") {
		if allocLabel(a) == label {
			return a
		}
	}
	return nil
}

// allocLabel is the index of an allocation, with a c if it is a canary.
func allocLabel(a *structs.Allocation) string {
	if a.DeploymentStatus.IsCanary() {
		return fmt.Sprintf("%dc", a.Index())
	}
	return strconv.Itoa(a.Index())
}

func healthMark(a *structs.Allocation) string {
	switch {
	case a.DeploymentStatus.IsHealthy():
		return "+"
	case a.DeploymentStatus.IsUnhealthy():
		return "-"
	}
	return ""
}
