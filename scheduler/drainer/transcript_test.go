package drainer

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

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
	"berth/test/kit"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts again")

// The transcripts of drains show, after each command, the allocations of each node, the drains and the
// reasons for which allocations are still there:
//
//	nodes N                                  nodes n0, n1, ...
//	job ID type=T count=N max_parallel=N     registers a job and starts it; plugin: it runs a CSI plugin
//	fail JOB                                 the checks of its new allocations fail
//	unhealthy JOB                            their nodes report so
//	volume JOB                               the allocation of the job on n0 uses a volume of the plugin
//	release JOB                              n0 has let go of the volume
//	drain NODE deadline=D                    force, ignore-system: the options
//	cancel NODE                              ends the drain; the node becomes eligible
//	tick                                     one step of the drain, the scheduler and the nodes
//	wait D                                   lets the time pass
func TestDrain_Transcripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			f := &drains{fleet: newFleet(t, 0), users: map[string]*structs.Allocation{}}
			kit.RunTranscript(t, path, *rewrite, func(s *kit.TranscriptStep) string {
				f.step(s)
				return f.describe()
			})
		})
	}
}

// drains is a fleet with allocations that use volumes, by their jobs.
type drains struct {
	*fleet
	users map[string]*structs.Allocation
}

func (f *drains) step(s *kit.TranscriptStep) {
	number := func(text string, def int) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			return def
		}
		return n
	}
	switch s.Name {
	case "nodes":
		for i := range number(s.Args[0], 1) {
			f.Node(fmt.Sprint("n", i))
		}
	case "job":
		f.register(s.Args[0], s.Arg("type"), number(s.Arg("count"), 1), func(g *structs.TaskGroup) {
			if s.Has("plugin") {
				plugin(g)
			}
			if n := number(s.Arg("max_parallel"), 0); n > 0 {
				checked(g)
				g.Migrate.MaxParallel = n
			}
		})
	case "fail":
		f.Failing[s.Args[0]] = true
	case "unhealthy":
		for _, a := range f.Allocs(s.Args[0]) {
			if !a.DeploymentStatus.IsKnown() {
				f.reportHealth(a, false)
			}
		}
	case "volume":
		f.users[s.Args[0]] = f.withVolume("n0", s.Args[0])
	case "release":
		f.Release(f.users[s.Args[0]], "vol")
	case "drain":
		deadline, _ := time.ParseDuration(s.Arg("deadline"))
		f.drain(s.Args[0], structs.DrainSpec{
			Deadline:         deadline,
			Force:            s.Has("force"),
			IgnoreSystemJobs: s.Has("ignore-system"),
		})
	case "cancel":
		schedtest.Do(f.Fleet, state.NodeDrain, &structs.NodeDrainRequest{
			NodeID: s.Args[0], MarkEligible: true, WriteOptions: f.Now()})
	case "tick":
		f.tick()
	case "wait":
		took, err := time.ParseDuration(s.Args[0])
		if err != nil {
			f.T.Fatalf("line %d: %v", s.Line, err)
		}
		f.Clock = f.Clock.Add(took)
	default:
		f.T.Fatalf("line %d: there is no command %s", s.Line, s.Name)
	}
}

// shortIDs are those of allocations, which are random.
var shortIDs = regexp.MustCompile(`\b[0-9a-f]{8}\b`)

func (f *drains) describe() string {
	tx := f.Store.Read()
	var lines []string
	for n := range state.Nodes(tx) {
		jobs := f.on(n.ID)
		slices.Sort(jobs)
		line := n.ID + ": " + strings.Join(jobs, " ")
		if len(jobs) == 0 {
			line = n.ID + ": empty"
		}
		switch {
		case n.Drain:
			line += " (drains)"
		case n.SchedulingEligibility == structs.NodeIneligible:
			line += " (ineligible)"
		}
		lines = append(lines, line)
		var reasons []string
		for _, w := range Waits(tx, n, f.Clock) {
			reasons = append(reasons, "  "+w.JobID+": "+shortIDs.ReplaceAllString(w.Reason, "ID"))
		}
		slices.Sort(reasons)
		lines = append(lines, slices.Compact(reasons)...)
	}
	return strings.Join(lines, "\n")
}
