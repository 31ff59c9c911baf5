package job_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/endpoints/job"
	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// addRunning places an allocation of a job of its own, and reports that it runs.
func addRunning(s *endpointstest.Server, id, node string, edits ...func(*structs.TaskGroup)) {
	s.T.Helper()
	s.AddAlloc(id, node, edits...)
	reportRunning(s, id, node)
}

func reportRunning(s *endpointstest.Server, id, node string) {
	s.T.Helper()
	endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   node,
		SecretID: endpointstest.SecretOf(node),
		Allocs:   []*structs.AllocClientUpdate{{ID: id, ClientStatus: structs.AllocRunning}},
	})
}

// serverWithPluginJob is a server with the volume v, which the allocation a1 uses on n1, where an allocation
// of job-p1 runs the plugin.
func serverWithPluginJob(t *testing.T, kind string) *endpointstest.Server {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	addRunning(s, "p1", "n1", endpointstest.RunsPlugin(kind))
	addRunning(s, "a1", "n1")
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
			err := endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, req)
			endpointstest.WantText(t, err, `runs plugin pl`)
			endpointstest.WantText(t, err, `volume "v" is in use by allocation a1 of job "job-a1" on node name-n1`)
			endpointstest.WantText(t, err, `berth job stop -force job-p1`)
		}

		forced := stopOf("job-p1")
		forced.Force = true
		endpointstest.Must(s, structs.JobDeregister, forced)
		if !state.Job(s.Store.Read(), "default", "job-p1").Stop {
			t.Errorf("%s: the job runs after a forced stop", kind)
		}
	}
}

func TestJobDeregister_OfAUserIsNotHeldUp(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginMonolith)
	endpointstest.Must(s, structs.JobDeregister, stopOf("job-a1"))
	endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister,
		stopOf("job-p1")) // v is mounted still
	s.EndAlloc("a1", "n1")
	// The node has not unmounted it.
	endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
}

func TestJobDeregister_OfAPluginWithoutUsers(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	addRunning(s, "p1", "n1", endpointstest.RunsPlugin(structs.CSIPluginNode))
	addRunning(s, "a1", "n2")
	s.AddVolume("v")
	s.Claim("v", "a1", "n2") // another instance serves it
	endpointstest.Must(s, structs.JobDeregister, stopOf("job-p1"))
}

// reportInstance reports that an allocation serves the half of the plugin that it runs, with a driver.
func reportInstance(s *endpointstest.Server, kind, alloc, node, driver string) {
	s.T.Helper()
	reportHealth(s, kind, alloc, node, driver, true)
}

// reportHealth is reportInstance with the answer of the plugin to its last probe.
func reportHealth(s *endpointstest.Server, kind, alloc, node, driver string, healthy bool) {
	s.T.Helper()
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   node,
		SecretID: endpointstest.SecretOf(node),
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
func reportNoInstance(s *endpointstest.Server, kind, node string) {
	s.T.Helper()
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   node,
		SecretID: endpointstest.SecretOf(node),
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
		reportInstance(s, kind, "p1", "n1", "pl.csi")
		addRunning(s, "p2", "n1", endpointstest.RunsPlugin(kind))
		endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister,
			stopOf("job-p1")) // p2 does not serve yet

		reportInstance(s, kind, "p2", "n1", "pl.csi")
		endpointstest.Must(s, structs.JobDeregister, stopOf("job-p1"))
		endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p2")) // the last one
	}
}

// A node rejects a second driver, whose allocation runs on beside the first one.
func TestJobDeregister_OfAPluginBesideAnotherDriver(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		s := serverWithPluginJob(t, kind)
		reportInstance(s, kind, "p1", "n1", "pl.csi")
		addRunning(s, "p2", "n1", endpointstest.RunsPlugin(kind))
		endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))

		reportNoInstance(s, kind, "n1") // p1 restarts: either may be the one that the volumes need
		endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
		endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p2"))

		reportInstance(s, kind, "p1", "n1", "pl.csi")
		endpointstest.Must(s, structs.JobDeregister, stopOf("job-p2"))
	}
}

// An instance that is not healthy serves no volume, and the one behind it may be needed.
func TestJobDeregister_OfAPluginBehindOneThatIsNotHealthy(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		for _, driver := range []string{"pl.csi", "other.csi"} {
			s := serverWithPluginJob(t, kind)
			addRunning(s, "p2", "n1", endpointstest.RunsPlugin(kind))
			reportHealth(s, kind, "p2", "n1", driver, false)
			endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
		}
	}
}

// The second driver takes the place of the first one while that restarts, and serves no volume there.
func TestJobDeregister_OfAPluginBehindAnotherDriver(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		s := serverWithPluginJob(t, kind)
		addRunning(s, "p2", "n1", endpointstest.RunsPlugin(kind))
		reportInstance(s, kind, "p2", "n1", "other.csi")
		endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
		endpointstest.Must(s, structs.JobDeregister, stopOf("job-p2"))
	}
}

// The controller on one node detaches the volumes of all nodes.
func TestJobDeregister_OfAControllerBesideOneOnAnotherNode(t *testing.T) {
	const kind = structs.CSIPluginController
	s := serverWithPluginJob(t, kind)
	s.AddNode("n2", "a")
	addRunning(s, "p2", "n2", endpointstest.RunsPlugin(kind))
	reportInstance(s, kind, "p1", "n1", "pl.csi")
	reportInstance(s, kind, "p2", "n2", "other.csi")
	endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
	reportInstance(s, kind, "p2", "n2", "pl.csi")
	endpointstest.Must(s, structs.JobDeregister, stopOf("job-p1"))
}

// A node reports an instance for a while after the stop or the end of its job or allocation.
func TestJobDeregister_OfAPluginBesideOneThatEnds(t *testing.T) {
	ends := map[string]func(*endpointstest.Server){
		"its job is stopped": func(s *endpointstest.Server) {
			forced := stopOf("job-p2")
			forced.Force = true
			endpointstest.Must(s, structs.JobDeregister, forced)
		},
		"it is moved": func(s *endpointstest.Server) {
			s.AddNode("n2", "a")
			s.Replace("p2", "p3", "n2")
		},
		"it has ended": func(s *endpointstest.Server) { s.EndAlloc("p2", "n1") },
	}
	for name, end := range ends {
		for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				s := serverWithPluginJob(t, kind)
				addRunning(s, "p2", "n1", endpointstest.RunsPlugin(kind))
				reportInstance(s, kind, "p2", "n1", "pl.csi")
				end(s)
				endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
			})
		}
	}
}

// Which of the allocations run on when the node is back is not known.
func TestJobDeregister_OfOneOfTwoPluginJobsOnANodeThatIsDown(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		s := serverWithPluginJob(t, kind)
		addRunning(s, "p2", "n1", endpointstest.RunsPlugin(kind))
		reportInstance(s, kind, "p2", "n1", "pl.csi")
		s.SetNodeDown("n1")
		endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
		endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p2"))
	}
}

func TestJobDeregister_OfAControllerWhoseVolumeIsAttached(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginController)
	endpointstest.MustPropose(s, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
	})
	if csi.Attachment(s.Store.Read(), "default", "v", "n1") == nil {
		t.Fatal("the volume has no attachment")
	}
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
	endpointstest.WantText(t, err, `volume "v" is detaching at node name-n1`)
}

func TestJobDeregister_OfAPluginBoundsItsUsers(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginNode)
	for _, id := range strings.Fields("b c d e f g h i j") {
		s.AddVolume("v" + id)
		addRunning(s, "a"+id, "n1")
		s.Claim("v"+id, "a"+id, "n1")
	}
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
	endpointstest.WantText(t, err, "; and 2 more.")
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
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.JobRegister,
		version(none)), `volume "v" is in use`)
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.JobRegister,
		version(other)), `volume "v" is in use`)
	endpointstest.Must(s, structs.JobRegister, version(same))
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
		endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{
			Job:          job,
			WriteOptions: structs.WriteOptions{Namespace: "default"},
		})
	}

	revert := &structs.JobRevertRequest{JobID: "job-p1", JobVersion: stored.Version + 1}
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.JobRevert,
		revert), `volume "v" is in use`)
	endpointstest.Must(s, structs.JobRevert,
		&structs.JobRevertRequest{JobID: "job-p1", JobVersion: stored.Version})
}
