package csi_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

func TestPlugin_ExistsWhileReferenced(t *testing.T) {
	w := newFixture(t)
	wantRow := func(want bool, after string) {
		t.Helper()
		got := csi.Plugin(w.Store.Read(), "p") != nil
		if got != want {
			t.Errorf("after %s: got a row %v, want %v", after, got, want)
		}
		err := try(w, csi.PluginDelete, &structs.CSIPluginDeleteRequest{ID: "p", WriteOptions: w.Now()})
		wantKind(t, err, map[bool]structs.Kind{true: structs.KindPrecondition}[want])
	}
	wantRow(false, "nothing")
	w.Volume("v", "p")
	wantRow(true, "a volume")
	w.Node("n1", anInstance("p", structs.CSIKindNode, false))
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v", WriteOptions: w.Now()})
	wantRow(true, "an unhealthy instance")
	w.Job(aJob("runs-p", structs.JobService, "p"))
	w.Alloc("a", "runs-p", "n1")
	do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n1",
		Full:         true,
		WriteOptions: w.Now(),
	})
	wantRow(true, "an allocation that runs it")
	w.Stop("a", "")
	wantRow(true, "a request to stop the allocation")
	w.Client("n1", "a", structs.AllocComplete)
	wantRow(false, "the end of the allocation")
}

func TestPluginDelete_NamesTheReferences(t *testing.T) {
	w := threeNodes(t, false)
	w.Job(aJob("runs-p", structs.JobService, "p"))
	w.Alloc("c1", "runs-p", "n1")
	err := try(w, csi.PluginDelete, &structs.CSIPluginDeleteRequest{ID: "p", WriteOptions: w.Now()})
	for _, says := range []string{
		"node instance on node n1", "allocation c1 of job runs-p",
		"volume v in namespace default",
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got error %v, want %q in it", err, says)
		}
	}
}

func TestNodeUpdateCSI_StoresReports(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Blocked("waits", structs.WakePlugin("p"))
	w.Update("n1", anInstance("p", structs.CSIKindNode, false))
	w.WantEval("blocked-waits", structs.EvalBlocked)
	w.Update("n1", anInstance("p", structs.CSIKindNode, true))
	w.WantEval("blocked-waits", structs.EvalPending)

	row, plugin := csi.Instance(w.Store.Read(), "p", structs.CSIKindNode, "n1"), csi.Plugin(w.Store.Read(), "p")
	w.Blocked("waits", structs.WakePlugin("p"))
	same := anInstance("p", structs.CSIKindNode, true)
	same.UpdateTime = 99
	w.Update("n1", same)
	if csi.Instance(w.Store.Read(), "p", structs.CSIKindNode, "n1") != row ||
		csi.Plugin(w.Store.Read(), "p") != plugin {
		t.Error("a report without changes was put")
	}
	w.WantEval("blocked-waits", structs.EvalBlocked)

	moved := anInstance("p", structs.CSIKindNode, true)
	moved.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{"zone": "2"}}
	w.Update("n1", moved)
	w.WantEval("blocked-waits", structs.EvalPending)

	do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n1",
		WriteOptions: w.Now(),
		Removes: []structs.CSIInstanceKey{
			{PluginID: "p", Kind: structs.CSIKindNode},
			{PluginID: "p", Kind: structs.CSIKindController},
		},
	})
	if csi.Instance(w.Store.Read(), "p", structs.CSIKindNode, "n1") != nil {
		t.Error("the instance was not removed")
	}
	for name, c := range map[string]struct {
		req  *structs.NodeUpdateCSIRequest
		want structs.Kind
	}{
		"an unknown node": {&structs.NodeUpdateCSIRequest{NodeID: "x"}, structs.KindNotFound},
		"a wrong secret":  {&structs.NodeUpdateCSIRequest{NodeID: "n1", SecretID: "x"}, structs.KindDenied},
		"no kind": {&structs.NodeUpdateCSIRequest{NodeID: "n1", Upserts: []*structs.CSIPluginInstance{{}}},
			structs.KindInvalid},
		"nothing": {&structs.NodeUpdateCSIRequest{NodeID: "n1", Upserts: []*structs.CSIPluginInstance{nil}},
			structs.KindInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			wantKind(t, try(w, state.NodeUpdateCSI, c.req), c.want)
		})
	}
}

func TestPlugin_RecordsItsController(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", attachingHalves("p")...)
	w.Update("n1", anInstance("other", structs.CSIKindNode, true))
	do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n1",
		WriteOptions: w.Now(),
		Removes:      []structs.CSIInstanceKey{{PluginID: "p", Kind: structs.CSIKindController}},
	})
	p := csi.Plugin(w.Store.Read(), "p")
	if !p.Known || !p.ControllerRequired || !p.ControllerSeen ||
		!p.SupportsAttachDetach ||
		p.Provider != "provider-p" || p.Version != "1" {
		t.Errorf("the plugin is %+v", p)
	}
	if o := csi.Plugin(w.Store.Read(), "other"); o.ControllerRequired ||
		o.ControllerSeen || o.SupportsAttachDetach ||
		!o.Known {
		t.Errorf("the other plugin is %+v", o)
	}
}

// One task of a group runs the controller of a plugin, another its node half: each half counts once.
func TestPluginDetail_CountsTheHalvesOfTwoTasksOnce(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	job := aJob("runs-p", structs.JobSystem, "p", "p")
	tasks := job.TaskGroups[0].Tasks
	tasks[1].CSIPluginConfig.Type = structs.CSIPluginController
	tasks[2].Name = "node"
	tasks[2].CSIPluginConfig.Type = structs.CSIPluginNode
	w.Job(job)
	w.Alloc("a", "runs-p", "n1")
	d := state.PluginDetail(w.Store.Read(), "p")
	if d.ControllersExpected != 1 || d.NodesExpected != 1 ||
		len(d.Allocations) != 1 {
		t.Errorf("%d controllers, %d nodes, %d allocations",
			d.ControllersExpected, d.NodesExpected, len(d.Allocations))
	}
}

func TestPluginDetail_IsAssembledByTheReader(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", attachingHalves("p")...)
	w.Node("n2", attaching(anInstance("p", structs.CSIKindNode, false))...)
	w.Node("n3")
	w.Job(aJob("runs-p", structs.JobSystem, "p"))
	for _, n := range []string{"1", "2", "3"} {
		w.Alloc("c"+n, "runs-p", "n"+n)
	}
	w.Alloc("gone", "runs-p", "n1")
	w.Client("n1", "gone", structs.AllocFailed)
	do(w, state.Reap, &structs.ReapRequest{Allocs: []string{"gone"}, WriteOptions: w.Now()})
	d := state.PluginDetail(w.Store.Read(), "p")
	if len(d.Controllers) != 1 || len(d.Nodes) != 2 ||
		!d.Nodes["n1"].Healthy || d.Nodes["n2"].Healthy ||
		len(d.Allocations) != 3 {
		t.Errorf("the detail of the plugin is %+v", d)
	}
	for _, a := range d.Allocations {
		if a == nil || a.JobType != structs.JobSystem {
			t.Errorf("allocation %+v", a)
		}
	}
	if d.ControllersHealthy != 1 || d.ControllersExpected != 3 || d.NodesHealthy != 1 ||
		d.NodesExpected != 3 {
		t.Errorf("controllers %d of %d, nodes %d of %d", d.ControllersHealthy, d.ControllersExpected,
			d.NodesHealthy, d.NodesExpected)
	}
	if state.PluginDetail(w.Store.Read(), "x") != nil {
		t.Error("a missing plugin has a detail")
	}
}

// The cost of one report must not grow with the fleet.
func TestFingerprint_WritesOnlyItsRows(t *testing.T) {
	w := newFixture(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		w.Node(id, anInstance("p", structs.CSIKindNode, true))
	}
	before := w.Store.Read()
	w.Update("n2", anInstance("p", structs.CSIKindNode, false))
	for i := range csi.InstancesByPlugin(w.Store.Read(), "p") {
		was := csi.Instance(before, i.PluginID, i.Kind, i.NodeID)
		if (i != was) != (i.NodeID == "n2") {
			t.Errorf("the row of %s was put: %v", i.NodeID, i != was)
		}
	}
	if csi.Plugin(before, "p") != csi.Plugin(w.Store.Read(), "p") {
		t.Error("the plugin's row was put without changes")
	}
}
