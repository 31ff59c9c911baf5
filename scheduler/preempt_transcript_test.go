package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// The transcripts of preemption show what the scheduler decides, command by command:
//
//	node ID cpu=N [gpus=N]               a node
//	preemption TYPE...                   the types of jobs that may displace others
//	job ID type=T priority=N cpu=N       registers a job and evaluates it; also with
//	  [count=N] [migrate=N] [batch=N]    its count, max_parallel of migrate, and of update with a stagger of 1m
//	  [port=N] [gpus=N] [brief]          its demands; brief writes numbers in place of allocations
//	start                                starts all allocations that wait for no other
//	end JOB                              ends the allocations of a job that are to end
//	evaluate                             processes all pending evaluations, the most important first
//	wait DURATION                        lets time pass, and processes the evaluations that are due
//	show                                 writes the allocations that have not ended
func TestPreemption_Transcripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/preemption/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c := &lateCluster{fixture: newFixture(t), plans: map[string]*structs.Plan{}}
			kit.RunTranscript(t, path, *rewrite, func(s *kit.TranscriptStep) string { return c.command(t, s) })
		})
	}
}

func (c *lateCluster) command(t *testing.T, cmd *kit.TranscriptStep) string {
	t.Helper()
	switch cmd.Name {
	case "node":
		c.node(nodeOf(t, cmd))
		return ""
	case "preemption":
		c.allowPreemption(cmd.Args)
		return ""
	case "job":
		c.job(jobOf(t, cmd))
		c.apply(c.process(c.eval(cmd.Args[0])))
		if cmd.Has("brief") {
			return c.countAllocs()
		}
	case "start":
		c.startAll()
	case "end":
		for n := range state.Nodes(c.s.Read()) {
			for _, a := range c.held(n.ID) {
				if a.JobID == cmd.Args[0] && a.ServerTerminal() {
					c.client(a, structs.AllocComplete)
				}
			}
		}
	case "evaluate":
		evals := c.evals(structs.EvalPending)
		slices.SortFunc(evals, func(a, b *structs.Evaluation) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.JobID, b.JobID))
		})
		for _, e := range evals {
			c.apply(c.process(e))
		}
	case "wait":
		took, err := time.ParseDuration(cmd.Args[0])
		if err != nil {
			t.Fatalf("line %d: %v", cmd.Line, err)
		}
		c.clock = c.clock.Add(took)
		c.runBatches()
	case "show":
	default:
		t.Fatalf("line %d: there is no command %s", cmd.Line, cmd.Name)
	}
	return c.showAllocs()
}

// numberOf returns an argument of a command, 0 if it is left out.
func numberOf(t *testing.T, cmd *kit.TranscriptStep, key string) int {
	t.Helper()
	if cmd.Arg(key) == "" {
		return 0
	}
	n, err := strconv.Atoi(cmd.Arg(key))
	if err != nil {
		t.Fatalf("line %d: %s: %v", cmd.Line, key, err)
	}
	return n
}

func nodeOf(t *testing.T, cmd *kit.TranscriptStep) *structs.Node {
	n := withDevices(cmd.Args[0], "acme/gpu/x1", numberOf(t, cmd, "gpus"))
	n.NodeResources.CPU.CpuShares = int64(numberOf(t, cmd, "cpu"))
	n.NodeResources.NodeNetworks = withPorts(n.ID, 1).NodeResources.NodeNetworks
	return n
}

func jobOf(t *testing.T, cmd *kit.TranscriptStep) *structs.Job {
	number := func(key string) int { return numberOf(t, cmd, key) }
	edits := []func(*structs.Job){priority(number("priority")), cpu(number("cpu"))}
	if n := number("count"); n > 0 {
		edits = append(edits, count(n))
	}
	if n := number("migrate"); n > 0 {
		edits = append(edits, moves(n))
	}
	if n := number("batch"); n > 0 {
		edits = append(edits, inBatches(n, time.Minute))
	}
	if n := number("port"); n > 0 {
		edits = append(edits, port("http", n))
	}
	if n := number("gpus"); n > 0 {
		edits = append(edits, demand("gpu", uint64(n)))
	}
	return aJob(cmd.Args[0], cmd.Arg("type"), edits...)
}

func (c *lateCluster) allowPreemption(types []string) {
	do(c.fixture, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{
		Config: cluster.SchedulerConfiguration{PreemptionConfig: cluster.PreemptionConfig{
			SystemSchedulerEnabled:   slices.Contains(types, structs.JobSystem),
			SysBatchSchedulerEnabled: slices.Contains(types, structs.JobSysBatch),
			BatchSchedulerEnabled:    slices.Contains(types, structs.JobBatch),
			ServiceSchedulerEnabled:  slices.Contains(types, structs.JobService),
		}},
		WriteOptions: c.now(),
	})
}

// showAllocs describes the allocations that have not ended, and the jobs that wait for capacity.
func (c *lateCluster) showAllocs() string {
	tx := c.s.Read()
	var lines []string
	for n := range state.Nodes(tx) {
		for _, a := range c.held(n.ID) {
			name := a.Name
			if a.JobVersion > 0 {
				name += fmt.Sprint(" v", a.JobVersion)
			}
			line := fmt.Sprintf("%s %s: %s, %s", n.ID, name, a.DesiredStatus, a.ClientStatus)
			var waits []string
			for id := range a.Awaits() {
				if other := state.Alloc(tx, id); !other.ClientTerminal() {
					waits = append(waits, other.Name)
				}
			}
			slices.Sort(waits)
			if len(waits) > 0 {
				line += ", waits for " + strings.Join(waits, " ")
			}
			lines = append(lines, line)
		}
	}
	for _, e := range c.evals(structs.EvalBlocked) {
		lines = append(lines, "job "+e.JobID+" waits for capacity")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// countAllocs counts the allocations that have not ended by job and desired status.
func (c *lateCluster) countAllocs() string {
	counts := map[string]int{}
	for n := range state.Nodes(c.s.Read()) {
		for _, a := range c.held(n.ID) {
			counts[a.JobID+" "+a.DesiredStatus]++
		}
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprint(key, ": ", counts[key]))
	}
	return strings.Join(lines, "\n")
}
