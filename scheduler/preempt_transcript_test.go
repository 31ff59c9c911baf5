package scheduler

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/internal/transcript"
	"berth/state"
	"berth/structs"
)

// The transcripts of preemption show what the scheduler decides, command by command:
//
//	node ID cpu=N                        a node
//	preemption TYPE...                   the types of jobs that may displace others
//	job ID type=T priority=N cpu=N       registers a job and evaluates it
//	start                                starts all allocations that wait for no other
//	end JOB                              ends the allocations of a job that are to end
//	evaluate                             processes all pending evaluations
//	show                                 writes the allocations that have not ended
func TestPreemption_Transcripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/preemption/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c := &lateCluster{fixture: newFixture(t), plans: map[string]*structs.Plan{}}
			transcript.Run(t, path, *rewrite, func(s *transcript.Step) string { return c.command(t, s) })
		})
	}
}

func (c *lateCluster) command(t *testing.T, cmd *transcript.Step) string {
	t.Helper()
	number := func(key string) int {
		n, err := strconv.Atoi(cmd.Arg(key))
		if err != nil {
			t.Fatalf("line %d: %s: %v", cmd.Line, key, err)
		}
		return n
	}
	switch cmd.Name {
	case "node":
		n := aNode(cmd.Args[0])
		n.NodeResources.CPU.CpuShares = int64(number("cpu"))
		c.node(n)
		return ""
	case "preemption":
		c.allowPreemption(cmd.Args)
		return ""
	case "job":
		id := cmd.Args[0]
		c.job(aJob(id, cmd.Arg("type"), priority(number("priority")), cpu(number("cpu"))))
		c.apply(c.process(c.eval(id)))
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
		for _, e := range c.evals(structs.EvalPending) {
			c.apply(c.process(e))
		}
	case "show":
	default:
		t.Fatalf("line %d: there is no command %s", cmd.Line, cmd.Name)
	}
	return c.showAllocs()
}

func (c *lateCluster) allowPreemption(types []string) {
	do(c.fixture, state.SchedulerConfigSet, &structs.SchedulerConfigRequest{
		Config: structs.SchedulerConfiguration{PreemptionConfig: structs.PreemptionConfig{
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
			line := fmt.Sprintf("%s %s: %s, %s", n.ID, a.Name, a.DesiredStatus, a.ClientStatus)
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
