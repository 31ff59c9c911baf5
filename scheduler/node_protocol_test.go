package scheduler

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// oldNode is a node whose agent reports no protocol.
func oldNode(id string) *structs.Node {
	n := aNode(id)
	delete(n.Attributes, structs.AttrNodeProtocol)
	n.Attributes["berth.version"] = "0.0.9"
	return n
}

func TestProtocol_EveryFieldFiltersOlderAgents(t *testing.T) {
	task := func(edit func(*structs.Task)) func(*structs.TaskGroup) {
		return func(g *structs.TaskGroup) { edit(g.Tasks[0]) }
	}
	untested := map[string]bool{}
	for _, f := range protocolFields {
		untested[f.name] = true
	}
	since := map[string]int{
		"service":                       structs.ServicesProtocol,
		"network.mode, dns or hostname": structs.NetworksProtocol,
		"service.address_mode, tagged_addresses or weights": structs.ConnectProtocol,
		"connect":          structs.ConnectProtocol,
		"max_run_duration": structs.RunDurationProtocol,
		"a destination beside local, secrets, tmp and alloc in a task of exec": structs.RootFilesProtocol,
	}
	for name, edit := range map[string]func(*structs.TaskGroup){
		"artifact":  task(func(t *structs.Task) { t.Artifacts = []*structs.TaskArtifact{{RelativeDest: "local/"}} }),
		"template":  task(func(t *structs.Task) { t.Templates = []*structs.Template{{DestPath: "local/x"}} }),
		"lifecycle": task(func(t *structs.Task) { t.Lifecycle = &structs.TaskLifecycle{Hook: "prestart"} }),
		"device": task(func(t *structs.Task) {
			t.Resources.Devices = []*structs.RequestedDevice{{Name: "gpu", Count: 1}}
		}),
		"network.mode, dns or hostname": func(g *structs.TaskGroup) {
			g.Networks = []*structs.NetworkResource{{Mode: structs.NetworkModeNone}}
		},
		"network": func(g *structs.TaskGroup) { g.Networks = []*structs.NetworkResource{{}} },
		"a volume of type host": func(g *structs.TaskGroup) {
			g.Volumes = map[string]*structs.VolumeRequest{"v": {Type: structs.VolumeTypeHost, Source: "v"}}
		},
		"max_run_duration":      func(g *structs.TaskGroup) { g.MaxRunDuration = new(time.Hour) },
		"ephemeral_disk.sticky": func(g *structs.TaskGroup) { g.EphemeralDisk.Sticky = true },
		"service.address_mode, tagged_addresses or weights": task(func(t *structs.Task) {
			t.Services = []*structs.Service{{Weights: &structs.ServiceWeights{}}}
		}),
		"connect": task(func(t *structs.Task) { t.Kind = "connect-native:web" }),
		"a destination beside local, secrets, tmp and alloc in a task of exec": task(func(t *structs.Task) {
			t.Driver = "exec"
			t.Artifacts = []*structs.TaskArtifact{{RelativeDest: "/usr/local/bin"}}
		}),
		"service": task(func(t *structs.Task) { t.Services = []*structs.Service{{}} }),
	} {
		job := aJob("web", structs.JobService)
		older := aJob("web", structs.JobService)
		edit(job.TaskGroups[0])
		g := newGroupPlan(job, job.TaskGroups[0])
		runsOn := sameRunSpec(older, older.TaskGroups[0], job, job.TaskGroups[0])
		if runsOn && !g.agentDropsChange(older.TaskGroups[0], oldNode("n1")) {
			t.Errorf("%s: after an update the tasks run on without it", name)
		}
		why := knowsFields(g, oldNode("n1"))
		want := fmt.Sprintf("the agent of the node has berth.protocol 0 (version 0.0.9); %s "+
			"needs %d or later: update the agent", name, max(1, since[name]))
		if why != want {
			t.Errorf("%s: got %q, want %q", name, why, want)
		}
		if why := knowsFields(g, aNode("n2")); why != "" {
			t.Errorf("%s: an agent of this version: %s", name, why)
		}
		delete(untested, name)
	}
	for name := range untested {
		t.Errorf("field %s has no test", name)
	}
}

func TestProtocol_IsThatOfTheNewestField(t *testing.T) {
	newest := structs.MigrateHealthProtocol // no field: without it the drainer reads the states of the tasks
	for _, f := range protocolFields {
		newest = max(newest, f.since)
	}
	if newest != structs.NodeProtocol {
		t.Errorf("a field needs protocol %d, the agent reports %d", newest, structs.NodeProtocol)
	}
	for text, want := range map[string]int{"": 0, "-1": 0, "x": 0, "1": 1, "77": 77} {
		n := &structs.Node{Attributes: map[string]string{structs.AttrNodeProtocol: text}}
		if got := n.Protocol(); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// A job waits for an agent that knows it, also behind one of the same demands that any agent can run.
func TestProtocol_OlderAgentGetsNoJobThatItDoesNotKnow(t *testing.T) {
	w := newFixture(t)
	w.node(oldNode("n1"))
	w.job(aJob("plain", structs.JobService))
	if p := w.run("plain"); len(p.Place) != 1 {
		t.Fatalf("a job without new fields: %s", describe(p))
	}
	w.job(aJob("web", structs.JobService, sticky))
	w.run("web")
	blocked := w.evals(structs.EvalBlocked)
	if len(blocked) != 1 {
		t.Fatalf("%d blocked evaluations", len(blocked))
	}
	refusals := blocked[0].FailedTGAllocs["g"].Refusals
	if len(refusals) != 1 || refusals[0].Filter != filterProtocol ||
		!strings.Contains(refusals[0].Reason, "ephemeral_disk.sticky needs 1") {
		t.Fatalf("refusals %+v", refusals)
	}
	w.node(aNode("n1")) // the agent was updated
	if p := w.run("web"); len(p.Place) != 1 {
		t.Errorf("after the update: %s", describe(p))
	}
}

func runDuration(d time.Duration) func(*structs.Job) {
	return func(j *structs.Job) { j.TaskGroups[0].MaxRunDuration = &d }
}

// nodeBeforeRunDurations is a node whose agent drops max_run_duration.
func nodeBeforeRunDurations(id string) *structs.Node {
	n := aNode(id)
	n.Attributes[structs.AttrNodeProtocol] = strconv.Itoa(structs.RunDurationProtocol - 1)
	return n
}

// An older agent would drop the new field without a word. So the update waits for a newer agent.
func TestProtocol_NoUpdateInPlaceWithAFieldThatTheAgentDrops(t *testing.T) {
	for name, versions := range map[string][2][]func(*structs.Job){
		"added":   {{}, {runDuration(time.Hour)}},
		"changed": {{runDuration(time.Hour)}, {runDuration(time.Minute)}},
	} {
		w := newFixture(t)
		w.node(aNode("n1"))
		w.job(aJob("a", structs.JobBatch, versions[0]...))
		w.run("a")
		w.node(nodeBeforeRunDurations("n1"))
		w.job(aJob("a", structs.JobBatch, versions[1]...))
		p := w.run("a")
		refused := refusals(p, "g")
		if len(p.Update)+len(p.Stop)+len(p.Place) != 0 || !strings.Contains(refused, "max_run_duration") {
			t.Errorf("%s: with an older agent: %s; refused: %q", name, describe(p), refused)
		}
		w.node(aNode("n2"))
		p = w.run("a")
		if len(p.Update) != 0 || len(p.Stop) != 1 {
			t.Errorf("%s: with a second node: %s", name, describe(p))
		}
		w.wantPlaced("a", "0@n2")
	}
}

// A field that an older agent has dropped before is no reason to replace an allocation.
func TestProtocol_UpdateInPlaceOfOtherFieldsOnAnOlderAgent(t *testing.T) {
	for name, versions := range map[string][2][]func(*structs.Job){
		"the same":  {{runDuration(time.Hour)}, {runDuration(time.Hour)}},
		"taken out": {{runDuration(time.Hour)}, {}},
		"not used":  {{}, {}},
	} {
		w := newFixture(t)
		w.node(aNode("n1"))
		w.job(aJob("a", structs.JobBatch, versions[0]...))
		w.run("a")
		w.node(nodeBeforeRunDurations("n1"))
		job := aJob("a", structs.JobBatch, versions[1]...)
		job.TaskGroups[0].ShutdownDelay = new(time.Second)
		w.job(job)
		p := w.run("a")
		if len(p.Update) != 1 || len(p.Stop)+len(p.Place) != 0 {
			t.Errorf("%s: %s", name, describe(p))
		}
	}
}

func TestShape_DiffersWithTheProtocol(t *testing.T) {
	shapes := map[string]bool{}
	for _, edit := range []func(*structs.Job){func(*structs.Job) {}, sticky} {
		w := newFixture(t)
		w.job(aJob("web", structs.JobService, edit))
		w.run("web")
		shapes[w.evals(structs.EvalBlocked)[0].Shape] = true
	}
	if len(shapes) != 2 {
		t.Errorf("the shapes are %v", shapes)
	}
}
