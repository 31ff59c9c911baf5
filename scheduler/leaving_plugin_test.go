package scheduler

import (
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// halfOf is a healthy node half of the plugin p, which an allocation runs.
func halfOf(allocID string) *structs.CSIPluginInstance {
	i := half("p", structs.CSIKindNode)
	i.AllocID = allocID
	return i
}

// withPlugin is a node n1 of 1000 MHz on which the system job csi runs the plugin p with 100 of them.
func withPlugin(t *testing.T) (*fixture, *structs.Allocation) {
	t.Helper()
	w := newFixture(t)
	w.nodes("n1")
	w.job(csiJob())
	w.run("csi")
	a := w.allocs("csi")[0]
	w.client(a, structs.AllocRunning)
	w.csi("n1", halfOf(a.ID))
	w.volume("v", "p")
	return w, a
}

// dbJob uses the volume of the plugin p.
func dbJob(mhz int) *structs.Job {
	return aJob("db", structs.JobService, cpu(mhz), volume("v", structs.CSISingleNodeWriter, false))
}

// A node that was down is back: its plugin runs until the node learns that the servers took it for lost.
func TestPlugin_KeepsTheCapacityOfItsSuccessorOnANodeThatIsBack(t *testing.T) {
	for name, report := range map[string]func(*fixture, *structs.Allocation){
		"by its lease": func(*fixture, *structs.Allocation) {},
		"by a late report": func(w *fixture, a *structs.Allocation) {
			sick := halfOf(a.ID)
			sick.Healthy = false
			w.csi("n1", sick)
			w.csi("n1", halfOf(a.ID))
		},
		"by its registration": func(w *fixture, a *structs.Allocation) { w.node(aNode("n1"), halfOf(a.ID)) },
	} {
		t.Run(name, func(t *testing.T) {
			w, a := withPlugin(t)
			w.status("n1", structs.NodeDown)
			w.run("csi")
			w.status("n1", structs.NodeReady)
			report(w, a)
			if !csi.Instance(w.s.Read(), "p", structs.CSIKindNode, "n1").Healthy {
				t.Fatal("the instance is not healthy")
			}
			w.job(dbJob(950))
			p := w.run("db")
			w.wantPlaced("db", "")
			want := "csi-plugin: CSI plugin p leaves this node: the allocation that runs it has ended or is to end (1)"
			if got := rejections(p, "g"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			w.run("csi")
			w.wantPlaced("csi", "0@n1")
		})
	}
}

func stopJob(id string) func(*fixture) {
	return func(w *fixture) {
		do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: id, WriteOptions: w.now()})
		w.run(id)
	}
}

// runBy reports that an allocation runs the plugin.
func runBy(allocID string) func(*fixture) {
	return func(w *fixture) { w.csi("n1", halfOf(allocID)) }
}

// A volume is placed where an allocation of its plugin is to run. It need not be the one that runs it now.
func TestPlugin_TakesVolumesWhereItStays(t *testing.T) {
	successor := func(edits ...func(*structs.CSIPluginConfig)) func(*fixture) {
		return func(w *fixture) {
			j := csiJob()
			j.ID = "successor"
			for _, edit := range edits {
				edit(j.TaskGroups[0].Tasks[0].CSIPluginConfig)
			}
			w.job(j)
			w.run("successor")
		}
	}
	controller := func(c *structs.CSIPluginConfig) { c.Type = structs.CSIPluginController }
	other := func(c *structs.CSIPluginConfig) { c.ID = "q" }
	for name, c := range map[string]struct {
		edits []func(*fixture)
		want  string
	}{
		"it runs":           {nil, "0@n1"},
		"its job has ended": {[]func(*fixture){stopJob("csi")}, ""},
		"it has failed": {[]func(*fixture){func(w *fixture) {
			w.client(w.allocs("csi")[0], structs.AllocFailed)
		}}, ""},
		"an update replaces it": {[]func(*fixture){func(w *fixture) {
			w.job(csiJob(cpu(200)))
			w.run("csi")
		}}, "0@n1"},
		"another job follows":             {[]func(*fixture){successor(), stopJob("csi")}, "0@n1"},
		"another job runs its controller": {[]func(*fixture){successor(controller), stopJob("csi")}, ""},
		"another job runs another plugin": {[]func(*fixture){successor(other), stopJob("csi")}, ""},
		"all that follow end, too": {
			[]func(*fixture){successor(), stopJob("csi"), stopJob("successor")}, "",
		},
		"its allocation is not known": {[]func(*fixture){stopJob("csi"), runBy("x")}, ""},
		"nobody says who runs it":     {[]func(*fixture){stopJob("csi"), runBy("")}, "0@n1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := withPlugin(t)
			for _, edit := range c.edits {
				edit(w)
			}
			w.job(dbJob(100))
			w.run("db")
			w.wantPlaced("db", c.want)
		})
	}
}

// The next instance may take over from a healthy one, of which no key tells.
func TestPlugin_IsTriedAgainAfterItHasLeft(t *testing.T) {
	w, _ := withPlugin(t)
	stopJob("csi")(w)
	w.job(dbJob(100))
	p := w.run("db")
	if len(p.Followups) != 1 {
		t.Fatalf("evaluations for later: %v", p.Followups)
	}
	due := p.Followups[0].WaitUntil - w.clock.UnixNano()
	if due < int64(retryDelay) || due > 2*int64(retryDelay) {
		t.Errorf("the next one is after %d ns", due)
	}
	w.job(csiJob())
	w.run("csi")
	w.csi("n1", halfOf(w.allocs("csi")[0].ID))
	w.apply(w.process(p.Followups[0]))
	w.wantPlaced("db", "0@n1")
}

// The evaluations of single nodes have one for later together.
func TestPlugin_IsTriedAgainOnceForAllNodes(t *testing.T) {
	w, _ := withPlugin(t)
	stopJob("csi")(w)
	w.job(aJob("db", structs.JobSystem, cpu(100), volume("v", structs.CSISingleNodeWriter, false)))
	e := w.eval("db")
	e.NodeID = "n1"
	p := w.process(e)
	if len(p.Followups) != 1 || p.Followups[0].NodeID != "" {
		t.Errorf("evaluations for later: %+v", p.Followups)
	}
}
