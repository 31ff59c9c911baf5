package csi_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

func renamed(halves []*structs.CSIPluginInstance, former string) []*structs.CSIPluginInstance {
	for _, i := range halves {
		i.FormerProvider = former
	}
	return halves
}

// wantHealthy checks which nodes' instances of plugin p are used, and which driver owns the plugin's ID.
func (w *fixture) wantHealthy(provider string, nodes ...string) {
	w.T.Helper()
	tx := w.Store.Read()
	d := state.PluginDetail(tx, "p")
	if d == nil || d.Provider != provider {
		w.T.Fatalf("plugin %+v, want driver %s", d, provider)
	}
	if d.NodesHealthy != len(nodes) || d.ControllersHealthy != len(nodes) {
		w.T.Errorf("%d nodes and %d controllers are healthy, want %d", d.NodesHealthy, d.ControllersHealthy,
			len(nodes))
	}
	for _, n := range nodes {
		if i := d.Nodes[n]; i == nil || !i.Healthy {
			w.T.Errorf("the instance on node %s is not used: %+v", n, i)
		}
	}
}

func (w *fixture) removeHalves(node string) {
	do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       node,
		WriteOptions: w.Now(),
		Full:         true,
	})
}

func TestDuty_B10_ASecondDriverUnderOneIDIsNotUsed(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	w.Node("n2", ofDriver("b.csi")...)
	w.wantHealthy("a.csi", "n1")
	row := csi.Instance(w.Store.Read(), "p", structs.CSIKindNode, "n2")
	want := `not used: its driver is "b.csi", plugin "p" belongs to driver "a.csi"`
	if row.Healthy || !row.OtherDriver || row.HealthDescription != want {
		t.Errorf("the instance is %+v", row)
	}
	w.Update("n2", ofDriver("b.csi")...)
	if csi.Instance(w.Store.Read(), "p", structs.CSIKindNode, "n2") != row {
		t.Error("a report without changes was put")
	}
	unhealthy := ofDriver("b.csi")
	unhealthy[0].Healthy = false
	unhealthy[0].HealthDescription = "no answer"
	w.Update("n2", unhealthy...)
	row = csi.Instance(w.Store.Read(), "p", structs.CSIKindNode, "n2")
	if row.HealthDescription != "no answer" || row.OtherDriver {
		t.Errorf("the instance is %+v", row)
	}
}

func TestPluginDriver_TakesOverAnIDThatIsFree(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	for _, n := range []string{"n2", "n3"} {
		b := ofDriver("b.csi")
		for _, i := range b {
			i.RequiresControllerPlugin = false
		}
		b[1].ControllerInfo.SupportsAttachDetach = false
		w.Node(n, b...)
	}
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n3"},
		Status:       structs.NodeDown,
		WriteOptions: w.Now(),
	})
	w.wantHealthy("a.csi", "n1")
	w.removeHalves("n1")
	w.wantHealthy("b.csi", "n2")
	p := csi.Plugin(w.Store.Read(), "p")
	if p.SupportsAttachDetach || p.ControllerRequired {
		t.Errorf("the plugin has capabilities of the former driver: %+v", p)
	}
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n3"},
		Status:       structs.NodeReady,
		WriteOptions: w.Now(),
	})
	w.wantHealthy("b.csi", "n2", "n3")
}

func TestPluginDriver_InstanceThatBecomesAnotherDriverFreesTheID(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	w.Node("n2", ofDriver("b.csi")...)
	w.Update("n1", ofDriver("b.csi")...)
	w.wantHealthy("b.csi", "n1", "n2")
}

func TestPluginDriver_IsKeptForVolumesAndAttachments(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	w.Volume("v", "p")
	w.Node("n2", ofDriver("b.csi")...)
	w.removeHalves("n1")
	w.Node("n3", ofDriver("b.csi")...)
	w.wantHealthy("a.csi")
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v", WriteOptions: w.Now()})
	w.wantHealthy("b.csi", "n2", "n3")
}

func TestPluginDriver_IsFreeAfterTheLastDetachOfADeregisteredVolume(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	w.Job(aJob("j", structs.JobService))
	w.Alloc("a1", "j", "n1")
	w.Volume("v", "p")
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Outcome("v", "n1", "attach", nil)
	w.Release("v", "a1")
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID:           "v",
		Force:        true,
		WriteOptions: w.Now(),
	})
	w.Node("n2", ofDriver("b.csi")...)
	w.removeHalves("n1")
	w.wantHealthy("a.csi")
	w.Outcome("v", "n1", "detach", nil)
	w.wantHealthy("b.csi", "n2")
}

func TestPluginDriver_IsFreeWhenAFailedVolumeMovesToAnotherPlugin(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	v := aVolume("v", "p")
	v.State, v.ExternalID = structs.VolumeCreating, ""
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v.Copy()},
		WriteOptions: w.Now(),
	})
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "v",
		Op:           "create",
		Final:        true,
		Err:          &structs.OperationError{Message: "no"},
		WriteOptions: w.Now(),
	})
	w.Node("n2", ofDriver("b.csi")...)
	w.removeHalves("n1")
	w.wantHealthy("a.csi")
	v.PluginID = "q"
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v.Copy()},
		WriteOptions: w.Now(),
	})
	w.wantHealthy("b.csi", "n2")
}

func TestPluginDriver_RenamedByItsVendorKeepsTheVolumes(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	w.Node("n2", ofDriver("a.csi")...)
	w.Volume("v", "p")
	w.Update("n1", renamed(ofDriver("a2.csi"), "a.csi")...)
	w.wantHealthy("a.csi", "n1", "n2") // during the rollout the driver has both names
	w.Update("n2", renamed(ofDriver("a2.csi"), "a.csi")...)
	w.wantHealthy("a2.csi", "n1", "n2")
	p := csi.Plugin(w.Store.Read(), "p")
	if !p.SupportsAttachDetach || !p.ControllerSeen {
		t.Errorf("the properties of the driver are lost: %+v", p)
	}
}

func TestVolumeDetail_WarnsOfANodeThatItsPluginNamesOtherwise(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", ofDriver("a.csi")...)
	w.Job(aJob("j", structs.JobService))
	w.Alloc("a1", "j", "n1")
	w.Volume("v", "p")
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Outcome("v", "n1", "attach", nil)
	detail := func() *structs.CSIVolumeDetail {
		return state.VolumeDetail(w.Store.Read(), csi.Volume(w.Store.Read(), structs.DefaultNamespace, "v"))
	}
	if d := detail(); len(d.Warnings) != 0 {
		t.Errorf("got warnings %q, want none", d.Warnings)
	}
	updated := ofDriver("a.csi")
	updated[0].NodeInfo.ID = "i-2"
	w.Update("n1", updated...)
	want := `attached to node name-n1 as "external", which plugin p names "i-2" now`
	if d := detail(); len(d.Warnings) != 1 ||
		!strings.HasPrefix(d.Warnings[0], want) ||
		d.Attachments[0].ExternalNodeID != "external" {
		t.Errorf("got warnings %q, want %s", d.Warnings, want)
	}
}

// jobRunning returns a job whose task runs one half, or both, of plugin p.
func jobRunning(id, kind string, more ...string) *structs.Job {
	j := aJob(id, structs.JobSystem, append([]string{"p"}, more...)...)
	for _, t := range j.TaskGroups[0].Tasks {
		if t.CSIPluginConfig != nil && t.CSIPluginConfig.ID == "p" {
			t.CSIPluginConfig.Type = kind
		}
	}
	return j
}

func TestPlugin_OfSeveralJobsAndSeveralOfOneJobAreCountedApart(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", attaching(anInstance("p", structs.CSIKindController, true))...)
	w.Node("n2", attaching(anInstance("p", structs.CSIKindNode, true))...)
	w.Node("n3", anInstance("p", structs.CSIKindNode, true), anInstance("q", structs.CSIKindNode, true),
		anInstance("q", structs.CSIKindController, true))
	w.Job(jobRunning("controllers", structs.CSIPluginController))
	w.Job(jobRunning("nodes", structs.CSIPluginNode, "q"))
	w.Alloc("c1", "controllers", "n1")
	for _, n := range []string{"2", "3"} {
		w.Alloc("a"+n, "nodes", "n"+n)
	}
	want := func(id string, controllers, controllersExpected, nodes, nodesExpected, allocs int) {
		t.Helper()
		d := state.PluginDetail(w.Store.Read(), id)
		if d.ControllersHealthy != controllers || d.ControllersExpected != controllersExpected ||
			d.NodesHealthy != nodes ||
			d.NodesExpected != nodesExpected || len(d.Allocations) != allocs {
			t.Errorf("plugin %s: controllers %d of %d, nodes %d of %d, %d allocations", id, d.ControllersHealthy,
				d.ControllersExpected,
				d.NodesHealthy, d.NodesExpected, len(d.Allocations))
		}
	}
	want("p", 1, 1, 2, 2, 3)
	want("q", 1, 2, 1, 2, 2)
	w.Client("n1", "c1", structs.AllocFailed) // one of the two jobs goes
	do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n1",
		WriteOptions: w.Now(),
		Full:         true,
	})
	want("p", 0, 0, 2, 2, 3)
	want("q", 1, 2, 1, 2, 2)
}
