package job_test

import (
	"strings"
	"testing"

	"berth/endpoints/job"
	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// addRunning places an allocation of a job of its own, and reports that it runs.
func (s *server) addRunning(id, node string, edits ...func(*structs.TaskGroup)) {
	s.T.Helper()
	s.AddAlloc(id, node, edits...)
	s.reportRunning(id, node)
}

func (s *server) reportRunning(id, node string) {
	s.T.Helper()
	must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   node,
		SecretID: secretOf(node),
		Allocs:   []*structs.AllocClientUpdate{{ID: id, ClientStatus: structs.AllocRunning}},
	})
}

// serverWithPluginJob is a server with the volume v, which the allocation a1 uses on n1, where an allocation
// of job-p1 runs the plugin.
func serverWithPluginJob(t *testing.T, kind string) *server {
	s := newServer(t)
	s.AddNode("n1", "a")
	s.addRunning("p1", "n1", runsPlugin(kind))
	s.addRunning("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	return s
}

func stopOf(job string) *structs.JobDeregisterRequest {
	return &structs.JobDeregisterRequest{JobID: job, WriteOptions: structs.WriteOptions{Namespace: "default"}}
}

func TestJobDeregister_OfAPluginNamesItsUsers(t *testing.T) {
	for _, kind := range []string{
		structs.CSIPluginNode, structs.CSIPluginController, structs.CSIPluginMonolith,
	} {
		s := serverWithPluginJob(t, kind)
		for _, purge := range []bool{false, true} {
			req := stopOf("job-p1")
			req.Purge = purge
			err := rejected(s, structs.KindPrecondition, structs.JobDeregister, req)
			wantText(t, err, `runs plugin pl`)
			wantText(t, err, `volume "v" is in use by allocation a1 of job "job-a1" on node name-n1`)
			wantText(t, err, `berth job stop -force job-p1`)
		}

		forced := stopOf("job-p1")
		forced.Force = true
		must(s, structs.JobDeregister, forced)
		if !state.Job(s.Store.Read(), "default", "job-p1").Stop {
			t.Errorf("%s: the job runs after a forced stop", kind)
		}
	}
}

func TestJobDeregister_OfAUserIsNotHeldUp(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginMonolith)
	must(s, structs.JobDeregister, stopOf("job-a1"))
	rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1")) // v is mounted still
	s.EndAlloc("a1", "n1")
	// The node has not unmounted it.
	rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
}

func TestJobDeregister_OfAPluginWithoutUsers(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.addRunning("p1", "n1", runsPlugin(structs.CSIPluginNode))
	s.addRunning("a1", "n2")
	s.AddVolume("v")
	s.Claim("v", "a1", "n2") // another instance serves it
	must(s, structs.JobDeregister, stopOf("job-p1"))
}

// reportInstance reports that an allocation serves the half of the plugin that it runs, with a driver.
func (s *server) reportInstance(kind, alloc, node, driver string) {
	s.T.Helper()
	s.reportHealth(kind, alloc, node, driver, true)
}

// reportHealth is reportInstance with the answer of the plugin to its last probe.
func (s *server) reportHealth(kind, alloc, node, driver string, healthy bool) {
	s.T.Helper()
	must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   node,
		SecretID: secretOf(node),
		Upserts: []*structs.CSIPluginInstance{{
			Kind:   halfOf(kind),
			NodeID: node,
			CSIInfo: structs.CSIInfo{
				PluginID:       "pl",
				AllocID:        alloc,
				Provider:       driver,
				Healthy:        healthy,
				NodeInfo:       &structs.CSINodeInfo{ID: "ext-" + node},
				ControllerInfo: &structs.CSIControllerInfo{SupportsAttachDetach: true},
			},
		}},
	})
}

// reportNoInstance reports that no process serves the half of the plugin on a node.
func (s *server) reportNoInstance(kind, node string) {
	s.T.Helper()
	must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   node,
		SecretID: secretOf(node),
		Removes:  []structs.CSIInstanceKey{{PluginID: "pl", Kind: halfOf(kind)}},
	})
}

func halfOf(kind string) structs.CSIKind {
	if kind == structs.CSIPluginController {
		return structs.CSIKindController
	}
	return structs.CSIKindNode
}

func TestJobDeregister_OfOneOfTwoPluginJobs(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		s := serverWithPluginJob(t, kind)
		s.reportInstance(kind, "p1", "n1", "pl.csi")
		s.addRunning("p2", "n1", runsPlugin(kind))
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1")) // p2 does not serve yet

		s.reportInstance(kind, "p2", "n1", "pl.csi")
		must(s, structs.JobDeregister, stopOf("job-p1"))
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p2")) // the last one
	}
}

// A node rejects a second driver, whose allocation runs on beside the first one.
func TestJobDeregister_OfAPluginBesideAnotherDriver(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		s := serverWithPluginJob(t, kind)
		s.reportInstance(kind, "p1", "n1", "pl.csi")
		s.addRunning("p2", "n1", runsPlugin(kind))
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))

		s.reportNoInstance(kind, "n1") // p1 restarts: either may be the one that the volumes need
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p2"))

		s.reportInstance(kind, "p1", "n1", "pl.csi")
		must(s, structs.JobDeregister, stopOf("job-p2"))
	}
}

// An instance that is not healthy serves no volume, and the one behind it may be needed.
func TestJobDeregister_OfAPluginBehindOneThatIsNotHealthy(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		for _, driver := range []string{"pl.csi", "other.csi"} {
			s := serverWithPluginJob(t, kind)
			s.addRunning("p2", "n1", runsPlugin(kind))
			s.reportHealth(kind, "p2", "n1", driver, false)
			rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
		}
	}
}

// The second driver takes the place of the first one while that restarts, and serves no volume there.
func TestJobDeregister_OfAPluginBehindAnotherDriver(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		s := serverWithPluginJob(t, kind)
		s.addRunning("p2", "n1", runsPlugin(kind))
		s.reportInstance(kind, "p2", "n1", "other.csi")
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
		must(s, structs.JobDeregister, stopOf("job-p2"))
	}
}

// The controller on one node detaches the volumes of all nodes.
func TestJobDeregister_OfAControllerBesideOneOnAnotherNode(t *testing.T) {
	const kind = structs.CSIPluginController
	s := serverWithPluginJob(t, kind)
	s.AddNode("n2", "a")
	s.addRunning("p2", "n2", runsPlugin(kind))
	s.reportInstance(kind, "p1", "n1", "pl.csi")
	s.reportInstance(kind, "p2", "n2", "other.csi")
	rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
	s.reportInstance(kind, "p2", "n2", "pl.csi")
	must(s, structs.JobDeregister, stopOf("job-p1"))
}

// A node reports an instance for a while after the stop or the end of its job or allocation.
func TestJobDeregister_OfAPluginBesideOneThatEnds(t *testing.T) {
	ends := map[string]func(*server){
		"its job is stopped": func(s *server) {
			forced := stopOf("job-p2")
			forced.Force = true
			must(s, structs.JobDeregister, forced)
		},
		"it is moved": func(s *server) {
			s.AddNode("n2", "a")
			s.Replace("p2", "p3", "n2")
		},
		"it has ended": func(s *server) { s.EndAlloc("p2", "n1") },
	}
	for name, end := range ends {
		for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				s := serverWithPluginJob(t, kind)
				s.addRunning("p2", "n1", runsPlugin(kind))
				s.reportInstance(kind, "p2", "n1", "pl.csi")
				end(s)
				rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
			})
		}
	}
}

// Which of the allocations run on when the node is back is not known.
func TestJobDeregister_OfOneOfTwoPluginJobsOnANodeThatIsDown(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		s := serverWithPluginJob(t, kind)
		s.addRunning("p2", "n1", runsPlugin(kind))
		s.reportInstance(kind, "p2", "n1", "pl.csi")
		s.SetNodeDown("n1")
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p2"))
	}
}

func TestJobDeregister_OfAControllerWhoseVolumeIsAttached(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginController)
	mustPropose(s, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n1",
		SecretID: secretOf("n1"),
		Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
	})
	if csi.Attachment(s.Store.Read(), "default", "v", "n1") == nil {
		t.Fatal("the volume has no attachment")
	}
	err := rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
	wantText(t, err, `volume "v" is detaching at node name-n1`)
}

func TestJobDeregister_OfAPluginBoundsItsUsers(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginNode)
	for _, id := range strings.Fields("b c d e f g h i j") {
		s.AddVolume("v" + id)
		s.addRunning("a"+id, "n1")
		s.Claim("v"+id, "a"+id, "n1")
	}
	err := rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
	wantText(t, err, "; and 2 more.")
}

func TestJobRegister_OfAVersionWithoutItsPlugin(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginNode)
	stored := state.Job(s.Store.Read(), "default", "job-p1")
	version := func(edit func(*structs.TaskGroup)) *structs.JobRegisterRequest {
		job, err := job.CopyJob(stored)
		if err != nil {
			t.Fatal(err)
		}
		edit(job.TaskGroups[0])
		job.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/plugin"}
		return &structs.JobRegisterRequest{Job: job, WriteOptions: structs.WriteOptions{Namespace: "default"}}
	}

	none := func(g *structs.TaskGroup) { g.Count = 0 }
	other := func(g *structs.TaskGroup) { g.Tasks[0].CSIPluginConfig.ID = "other" }
	same := func(g *structs.TaskGroup) { g.Tasks[0].Env = map[string]string{"V": "2"} }
	wantText(t, rejected(s, structs.KindPrecondition, structs.JobRegister, version(none)), `volume "v" is in use`)
	wantText(t, rejected(s, structs.KindPrecondition, structs.JobRegister, version(other)), `volume "v" is in use`)
	must(s, structs.JobRegister, version(same))
}

func TestJobRevert_ToAVersionWithoutItsPlugin(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginNode)
	stored := state.Job(s.Store.Read(), "default", "job-p1")
	for _, plugin := range []string{"other", "pl"} {
		job, err := job.CopyJob(stored)
		if err != nil {
			t.Fatal(err)
		}
		job.TaskGroups[0].Tasks[0].CSIPluginConfig.ID = plugin
		mustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{
			Job:          job,
			WriteOptions: structs.WriteOptions{Namespace: "default"},
		})
	}

	revert := &structs.JobRevertRequest{JobID: "job-p1", JobVersion: stored.Version + 1}
	wantText(t, rejected(s, structs.KindPrecondition, structs.JobRevert, revert), `volume "v" is in use`)
	must(s, structs.JobRevert, &structs.JobRevertRequest{JobID: "job-p1", JobVersion: stored.Version})
}
