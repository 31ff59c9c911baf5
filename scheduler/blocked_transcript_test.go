package scheduler

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/state"
	"berth/state/statetest"
	"berth/state/unblock"
	"berth/structs"
	"berth/test/kit"
)

// The transcripts of blocked evaluations show the evaluations that are pending and those that wait, each
// after a command:
//
//	node ID cpu=N                     a node registers
//	job ID cpu=N priority=N           a job registers, and its evaluation is processed
//	end JOB                           the allocations of a job end, and nothing replaces them
//	preemption TYPE...                the types of jobs that may displace others
//	process                           processes the first pending evaluation
//	unblock N                         the leader unblocks N more queues of an unblocked key
func TestBlockedEval_Transcripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/blocked/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			c := &blockedEvals{&lateCluster{fixture: newFixture(t), plans: map[string]*structs.Plan{}}}
			kit.RunTranscript(t, path, *rewrite, c.step)
		})
	}
}

// manyNamed is the most jobs that a line names.
const manyNamed = 3

type blockedEvals struct{ *lateCluster }

func (c *blockedEvals) step(s *kit.TranscriptStep) string {
	number := func(name string, def int) int {
		n, err := strconv.Atoi(s.Arg(name))
		if err != nil {
			return def
		}
		return n
	}
	did := ""
	switch s.Name {
	case "node":
		n := aNode(s.Args[0])
		n.NodeResources.CPU.CpuShares = int64(number("cpu", 1000))
		c.node(n)
	case "job":
		id := s.Args[0]
		c.submit(aJob(id, structs.JobBatch, cpu(number("cpu", 100)), priority(number("priority", 50))), "eval-"+id)
		c.processEval(state.Eval(c.s.Read(), "eval-"+id))
	case "end":
		for _, a := range c.allocs(s.Args[0]) {
			c.client(a, structs.AllocComplete)
		}
	case "preemption":
		c.allowPreemption(s.Args)
	case "process":
		for e := range state.ReadyEvals(c.s.Read()) {
			did = c.processEval(e) + "\n"
			break
		}
	case "unblock":
		n, err := strconv.Atoi(s.Args[0])
		if err != nil {
			c.t.Fatalf("line %d: %v", s.Line, err)
		}
		do(c.fixture, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: n, WriteOptions: c.now()})
	default:
		c.t.Fatalf("line %d: there is no command %s", s.Line, s.Name)
	}
	return did + c.describe()
}

// processEval plans an evaluation and applies the plan.
func (c *blockedEvals) processEval(e *structs.Evaluation) string {
	p := c.process(e)
	c.applyLate(p)
	switch {
	case len(p.Place) > 0:
		return fmt.Sprintf("%s finds a place on %s", e.JobID, p.Place[0].NodeID)
	case len(p.Eval.FailedTGAllocs) > 0:
		return e.JobID + " finds no place"
	}
	return e.JobID + " needs nothing"
}

func (c *blockedEvals) describe() string {
	tx := c.s.Read()
	var running, pending, waiting []string
	for n := range state.Nodes(tx) {
		for a := range state.LiveAllocsByNode(tx, n.ID) {
			running = append(running, a.JobID+"@"+a.NodeID)
		}
	}
	for e := range state.ReadyEvals(tx) {
		pending = append(pending, e.JobID)
	}
	for e := range statetest.EvalsByStatus(tx, structs.EvalBlocked) {
		waiting = append(waiting, e.JobID)
	}
	slices.Sort(running)
	slices.Sort(waiting)
	var lines []string
	for _, l := range []struct {
		name string
		of   []string
	}{{"placed", running}, {"pending", pending}, {"waiting", waiting}} {
		switch {
		case len(l.of) > manyNamed: // the order of queues depends on digests
			lines = append(lines, fmt.Sprintf("%s: %d jobs", l.name, len(l.of)))
		case len(l.of) > 0:
			lines = append(lines, l.name+": "+strings.Join(l.of, " "))
		}
	}
	if unblock.Due(tx) {
		lines = append(lines, "queues are left to unblock")
	}
	return strings.Join(lines, "\n")
}
