package scheduler

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/level"
	"berth/scheduler/rejects"
	"berth/structs"
)

// newLevelFixture returns a fixture in which max_run_duration is a field that agents of the first release do
// not know.
func newLevelFixture(t *testing.T) *fixture {
	w := newFixture(t)
	w.options.above = func(v any, n int) []level.Part {
		bound := v.(*structs.TaskGroup).MaxRunDuration
		if bound == nil || n > level.First {
			return level.Above(v, n)
		}
		return append(level.Above(v, n), level.Part{
			Path:  "MaxRunDuration",
			Level: level.First + 1,
			Value: *bound,
		})
	}
	return w
}

// nodeOfLevel is a node whose agent tells a level.
func nodeOfLevel(id string, of int) *structs.Node {
	n := aNode(id)
	n.Attributes[structs.AttrNodeLevel] = strconv.Itoa(of)
	n.Attributes["berth.version"] = "0.1.0"
	return n
}

func TestNodeLevel_IsThatOfItsAttribute(t *testing.T) {
	for text, want := range map[string]int{"": 0, "-1": 0, "x": 0, "1": 1, "77": 77} {
		n := &structs.Node{Attributes: map[string]string{structs.AttrNodeLevel: text}}
		if got := n.Level(); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// A job waits for an agent that knows it, also behind one of the same demands that any agent can run.
func TestNodeLevel_OlderAgentGetsNoJobThatItDoesNotKnow(t *testing.T) {
	w := newLevelFixture(t)
	w.node(nodeOfLevel("n1", level.First))
	w.job(aJob("plain", structs.JobBatch))
	if p := w.run("plain"); len(p.Place) != 1 {
		t.Fatalf("a job without newer fields: %s", describe(p))
	}
	w.job(aJob("web", structs.JobBatch, runDuration(time.Hour)))
	w.run("web")
	blocked := w.evals(structs.EvalBlocked)
	if len(blocked) != 1 {
		t.Fatalf("%d blocked evaluations", len(blocked))
	}
	rejections := blocked[0].FailedTGAllocs["g"].Rejections
	const why = "the agent of the node has berth.level 2 (version 0.1.0); MaxRunDuration needs 3 or later: update the agent"
	if len(rejections) != 1 || rejections[0].Filter != rejects.FilterLevel || rejections[0].Reason != why {
		t.Fatalf("rejections %+v", rejections)
	}
	w.node(nodeOfLevel("n1", level.First+1)) // the agent was updated
	if p := w.run("web"); len(p.Place) != 1 {
		t.Errorf("after the update: %s", describe(p))
	}
}

func runDuration(d time.Duration) func(*structs.Job) {
	return func(j *structs.Job) { j.TaskGroups[0].MaxRunDuration = &d }
}

// An older agent would drop the new field without a word. So the update waits for a newer agent.
func TestNodeLevel_NoUpdateInPlaceWithAFieldThatTheAgentDrops(t *testing.T) {
	for name, versions := range map[string][2][]func(*structs.Job){
		"added":   {{}, {runDuration(time.Hour)}},
		"changed": {{runDuration(time.Hour)}, {runDuration(time.Minute)}},
	} {
		w := newLevelFixture(t)
		w.node(nodeOfLevel("n1", level.First+1))
		w.job(aJob("a", structs.JobBatch, versions[0]...))
		w.run("a")
		w.node(nodeOfLevel("n1", level.First))
		w.job(aJob("a", structs.JobBatch, versions[1]...))
		p := w.run("a")
		rejected := rejections(p, "g")
		if len(p.Update)+len(p.Stop)+len(p.Place) != 0 || !strings.Contains(rejected, "MaxRunDuration") {
			t.Errorf("%s: with an older agent: %s; rejected: %q", name, describe(p), rejected)
		}
		w.node(nodeOfLevel("n2", level.First+1))
		p = w.run("a")
		if len(p.Update) != 0 || len(p.Stop) != 1 {
			t.Errorf("%s: with a second node: %s", name, describe(p))
		}
		w.wantPlaced("a", "0@n2")
	}
}

// A field that an older agent has dropped before is no reason to replace an allocation.
func TestNodeLevel_UpdateInPlaceOfOtherFieldsOnAnOlderAgent(t *testing.T) {
	for name, versions := range map[string][2][]func(*structs.Job){
		"the same":  {{runDuration(time.Hour)}, {runDuration(time.Hour)}},
		"taken out": {{runDuration(time.Hour)}, {}},
		"not used":  {{}, {}},
	} {
		w := newLevelFixture(t)
		w.node(nodeOfLevel("n1", level.First+1))
		w.job(aJob("a", structs.JobBatch, versions[0]...))
		w.run("a")
		w.node(nodeOfLevel("n1", level.First))
		job := aJob("a", structs.JobBatch, versions[1]...)
		job.TaskGroups[0].ShutdownDelay = new(time.Second)
		w.job(job)
		p := w.run("a")
		if len(p.Update) != 1 || len(p.Stop)+len(p.Place) != 0 {
			t.Errorf("%s: %s", name, describe(p))
		}
	}
}

func TestShape_DiffersWithTheLevel(t *testing.T) {
	shapes := map[string]bool{}
	for _, edit := range []func(*structs.Job){func(*structs.Job) {}, runDuration(time.Hour)} {
		w := newLevelFixture(t)
		w.job(aJob("web", structs.JobService, edit))
		w.run("web")
		shapes[w.evals(structs.EvalBlocked)[0].Shape] = true
	}
	if len(shapes) != 2 {
		t.Errorf("the shapes are %v", shapes)
	}
}
