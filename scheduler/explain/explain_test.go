package explain

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/scheduler/feasible"
	"berth/scheduler/schedtest"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

var update = flag.Bool("update", false, "write the golden file")

const golden = "testdata/why.golden"

// TestWhy_Situations compares the explanation of each situation with the golden file, which is also their
// documentation.
func TestWhy_Situations(t *testing.T) {
	var b strings.Builder
	names := map[string]bool{}
	for _, s := range allSituations() {
		f := schedtest.New(t, s.nodes)
		s.make(f)
		waits, reasons := explainSubject(f, s)
		if waits == s.calm {
			t.Errorf("%s: something waits: %t", s.name, waits)
		}
		if names[s.name] {
			t.Errorf("two situations are named %q", s.name)
		}
		names[s.name] = true
		fmt.Fprintf(&b, "== %s\n%s\n", s.name, stableIDs(f, structs.WhyText(reasons)))
	}
	if *update {
		err := os.WriteFile(golden, []byte(b.String()), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the explanations have changed; -update writes them. Now:\n%s", got)
	}
}

func allSituations() []situation {
	return slices.Concat(situations, calmSituations, waitSituations, holderSituations, nodeSituations,
		deploymentSituations, updateSituations, lossSituations, awaySituations, quotaSituations)
}

func explainSubject(f *schedtest.Fleet, s situation) (bool, []*structs.Reason) {
	tx := f.Store.Read()
	view := View{Tx: tx, Now: f.Clock}
	if !s.unfenced {
		view.Fences = func(*structs.Node) bool { return true }
	}
	if s.volume != "" {
		return Volume(view, csi.Volume(tx, structs.DefaultNamespace, s.volume))
	}
	return Job(view, state.Job(tx, structs.DefaultNamespace, "web"))
}

// stableIDs replaces the random IDs of allocations and evaluations by names.
func stableIDs(f *schedtest.Fleet, text string) string {
	tx := f.Store.Read()
	for a := range state.AllocsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		text = strings.ReplaceAll(text, a.ID, "<"+a.Name+">")
		text = strings.ReplaceAll(text, structs.ShortID(a.ID), "<"+a.Name+">")
	}
	for e := range state.EvalsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		text = strings.ReplaceAll(text, structs.ShortID(e.ID), "<"+e.TriggeredBy+">")
	}
	for d := range state.DeploymentsByJob(tx, structs.DefaultNamespace, "web") {
		text = strings.ReplaceAll(text, d.ID, "<deployment>")
		text = strings.ReplaceAll(text, structs.ShortID(d.ID), "<deployment>")
	}
	return text
}

func TestWhy_HasARemedyForEachFilter(t *testing.T) {
	known := map[string]bool{}
	for _, name := range feasible.Filters() {
		known[name] = true
		if remedyOf(name, &structs.Job{Namespace: prod}, nil, nil) == "" {
			t.Errorf("the filter %s has no remedy", name)
		}
	}
	for name := range remedies {
		if !known[name] {
			t.Errorf("there is no filter %s", name)
		}
	}
}

// TestWhy_HasARemedyForWhatWaits: of each reason and those behind it, one has a remedy.
func TestWhy_HasARemedyForWhatWaits(t *testing.T) {
	for _, s := range allSituations() {
		f := schedtest.New(t, s.nodes)
		s.make(f)
		_, reasons := explainSubject(f, s)
		missing := withoutRemedy(reasons)
		why := needNoRemedy[s.name]
		switch {
		case s.calm:
		case missing != "" && why == "":
			t.Errorf("%s: no remedy for %q", s.name, stableIDs(f, missing))
		case missing == "" && why != "":
			t.Errorf("%s: it has a remedy and needs no exception", s.name)
		}
	}
}

// needNoRemedy has the situations with a reason that needs no remedy, and why.
var needNoRemedy = map[string]string{
	"volume: claims in the queue": "the remedy is that of their holder, which follows them all",
}

// withoutRemedy returns the text of a reason without a remedy before or behind it, "" if there is none.
func withoutRemedy(reasons []*structs.Reason) string {
	for _, r := range reasons {
		switch {
		case r.Remedy != "":
		case len(r.Because) == 0:
			return r.Text
		default:
			if missing := withoutRemedy(r.Because); missing != "" {
				return missing
			}
		}
	}
	return ""
}

func TestWhy_BoundsItsLists(t *testing.T) {
	f := schedtest.New(t, 1)
	f.Register(schedtest.Job("web", structs.JobService, 100))
	f.Schedule()
	_, reasons := explainSubject(f, situation{})
	if got := len(reasons); got != mostListed+1 || reasons[mostListed].Text != "and 90 more allocations" {
		t.Errorf("%d reasons, the last %q", got, reasons[got-1].Text)
	}
}

func TestWhy_SearchesFewNodesForHolders(t *testing.T) {
	const nodes = mostSearched + 6
	f := schedtest.New(t, nodes)
	for i := range nodes {
		f.Node(fmt.Sprintf("n%d", i), hasPorts)
	}
	f.Register(schedtest.Job("db", structs.JobService, nodes, staticPort))
	f.Register(schedtest.Job("web", structs.JobService, 1, staticPort))
	f.Schedule()
	_, reasons := explainSubject(f, situation{})
	because := reasons[0].Because
	last := because[len(because)-1].Text
	if want := fmt.Sprintf("and %d more holders", mostSearched-mostListed); last != want {
		t.Errorf("the last reason is %q, want %q", last, want)
	}
}

// The job may not use the nodes of another datacenter or pool, so it does not wait for their ports.
func TestWhy_NamesNoHoldersWhereTheJobMayNotBe(t *testing.T) {
	f := schedtest.New(t, 3)
	f.Node("n0", hasPorts)
	f.Node("n1", hasPorts, func(n *structs.Node) { n.Datacenter = "elsewhere" })
	f.Node("n2", hasPorts, func(n *structs.Node) { n.NodePool = "other" })
	everywhere := schedtest.Job("db", structs.JobSystem, 1, staticPort)
	everywhere.NodePool = structs.AllNodePools
	everywhere.Datacenters = []string{"*"}
	f.Register(everywhere)
	f.Register(schedtest.Job("web", structs.JobService, 1, staticPort))
	f.Schedule()
	_, reasons := explainSubject(f, situation{})
	var holders []string
	for _, r := range reasons[0].Because {
		if strings.Contains(r.Text, " has port 80 ") {
			holders = append(holders, r.Text)
		}
	}
	if len(holders) != 1 || len(f.Allocs("db")) != 3 {
		t.Errorf("%d allocations have the port, and the holders are %q, want that of one",
			len(f.Allocs("db")), holders)
	}
}

// situation is a state in which the job web or a volume waits.
type situation struct {
	name     string
	nodes    int
	volume   string // explain it instead of the job
	calm     bool   // nothing waits
	unfenced bool   // no device of the servers fences a node
	make     func(f *schedtest.Fleet)
}

// placed registers the job web with edits of its group, and processes its evaluation.
func placed(count int, edits ...func(*structs.TaskGroup)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("web", structs.JobService, count, edits...))
		f.Schedule()
	}
}

// running is placed, and the allocations run.
func running(count int, edits ...func(*structs.TaskGroup)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		placed(count, edits...)(f)
		f.Tick()
	}
}

// after joins steps.
func after(steps ...func(*schedtest.Fleet)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		for _, step := range steps {
			step(f)
		}
	}
}

func constraint(left, operand, right string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		g.Constraints = append(g.Constraints, &structs.Constraint{LTarget: left, Operand: operand, RTarget: right})
	}
}

func usesVolume(access structs.CSIAccessMode) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		g.Volumes = map[string]*structs.VolumeRequest{"data": {
			Name:           "data",
			Type:           structs.VolumeTypeCSI,
			Source:         "vol",
			AccessMode:     access,
			AttachmentMode: structs.CSIFileSystem,
		}}
	}
}

func hostVolume(g *structs.TaskGroup) {
	g.Volumes = map[string]*structs.VolumeRequest{"data": {
		Name:       "data",
		Type:       structs.VolumeTypeHost,
		Source:     "disk",
		AccessMode: structs.CSISingleNodeWriter,
	}}
}

func nodeStatus(id, status string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		schedtest.Do(f, state.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs:      []string{id},
			Status:       status,
			WriteOptions: f.Now(),
		})
	}
}

func report(status, description string, tasks map[string]*structs.TaskState) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		f.Report(f.Allocs("web")[0], &structs.AllocClientUpdate{
			ClientStatus:      status,
			ClientDescription: description,
			TaskStates:        tasks,
		})
	}
}

func event(kind, message string) []*structs.TaskEvent {
	return []*structs.TaskEvent{{Type: kind, DisplayMessage: message, Time: 1}}
}

const noToken = "task t waits for its token of Consul: no leader"

var waitsForToken = map[string]*structs.TaskState{"t": {
	State:  structs.TaskPending,
	Events: event(structs.TaskEventHookMessage, noToken),
}}

func wait(d time.Duration) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) { f.Clock = f.Clock.Add(d) }
}

func stopped(f *schedtest.Fleet) {
	schedtest.Do(f, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID: "web",
		Eval: &structs.Evaluation{
			ID:          "eval-stop",
			JobID:       "web",
			TriggeredBy: structs.TriggerJobDeregister,
			Status:      structs.EvalPending,
		},
		WriteOptions: f.Now(),
	})
	f.Schedule()
}

func volume(edits ...func(*structs.CSIVolume)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) { f.Volume("vol", edits...) }
}

func inState(status string, failed *structs.OperationError) func(*structs.CSIVolume) {
	return func(v *structs.CSIVolume) {
		v.State = status
		v.ExternalID = ""
		v.LastError = failed
	}
}

// other runs one allocation of the job db, which claims the volume.
func other(access structs.CSIAccessMode) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("db", structs.JobService, 1, usesVolume(access)))
		f.Schedule()
		f.Claim(f.Allocs("db")[0], "vol", access)
		f.Tick()
	}
}
