package endpoints

import (
	"strings"
	"testing"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// runsPlugin makes a group run the plugin of the volumes.
func runsPlugin(kind string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: kind}
	}
}

// addRunning places an allocation of a job of its own, and reports that it runs.
func (s *server) addRunning(id, node string, edits ...func(*structs.TaskGroup)) {
	s.t.Helper()
	s.addAlloc(id, node, edits...)
	s.reportRunning(id, node)
}

func (s *server) reportRunning(id, node string) {
	s.t.Helper()
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
	s.addNode("n1", "a")
	s.addRunning("p1", "n1", runsPlugin(kind))
	s.addRunning("a1", "n1")
	s.addVolume("v")
	s.claim("v", "a1", "n1")
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
		if !state.Job(s.store.Read(), "default", "job-p1").Stop {
			t.Errorf("%s: the job runs after a forced stop", kind)
		}
	}
}

func TestJobDeregister_OfAUserIsNotHeldUp(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginMonolith)
	must(s, structs.JobDeregister, stopOf("job-a1"))
	rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1")) // v is mounted still
	s.endAlloc("a1", "n1")
	// The node has not unmounted it.
	rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
}

func TestJobDeregister_OfAPluginWithoutUsers(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.addNode("n2", "a")
	s.addRunning("p1", "n1", runsPlugin(structs.CSIPluginNode))
	s.addRunning("a1", "n2")
	s.addVolume("v")
	s.claim("v", "a1", "n2") // another instance serves it
	must(s, structs.JobDeregister, stopOf("job-p1"))
}

func TestJobDeregister_OfOneOfTwoPluginJobs(t *testing.T) {
	for _, kind := range []string{structs.CSIPluginNode, structs.CSIPluginController} {
		s := serverWithPluginJob(t, kind)
		s.addAlloc("p2", "n1", runsPlugin(kind))
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1")) // p2 does not run yet

		s.reportRunning("p2", "n1")
		must(s, structs.JobDeregister, stopOf("job-p1"))
		rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p2")) // the last one
	}
}

func TestJobDeregister_OfAControllerWhoseVolumeIsAttached(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginController)
	mustPropose(s, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n1",
		SecretID: secretOf("n1"),
		Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
	})
	if state.Attachment(s.store.Read(), "default", "v", "n1") == nil {
		t.Fatal("the volume has no attachment")
	}
	err := rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
	wantText(t, err, `volume "v" is detaching at node name-n1`)
}

func TestJobDeregister_OfAPluginBoundsItsUsers(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginNode)
	for _, id := range strings.Fields("b c d e f g h i j") {
		s.addVolume("v" + id)
		s.addRunning("a"+id, "n1")
		s.claim("v"+id, "a"+id, "n1")
	}
	err := rejected(s, structs.KindPrecondition, structs.JobDeregister, stopOf("job-p1"))
	wantText(t, err, "; and 2 more.")
}

func TestJobRegister_OfAVersionWithoutItsPlugin(t *testing.T) {
	s := serverWithPluginJob(t, structs.CSIPluginNode)
	stored := state.Job(s.store.Read(), "default", "job-p1")
	version := func(edit func(*structs.TaskGroup)) *structs.JobRegisterRequest {
		job, err := copyJob(stored)
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
	stored := state.Job(s.store.Read(), "default", "job-p1")
	for _, plugin := range []string{"other", "pl"} {
		job, err := copyJob(stored)
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
