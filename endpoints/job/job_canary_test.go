package job_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/structs"
	"berth/structs/defaults"
)

// canaryJob is the job web, whose allocations use the volume v in a mode.
func canaryJob(mode structs.CSIAccessMode, canaries int) *structs.Job {
	j := endpointstest.Job("web")
	update := structs.DefaultUpdateStrategy()
	update.Canary = canaries
	g := j.TaskGroups[0]
	g.Update = &update
	g.Volumes["data"].AccessMode = mode
	g.Volumes["data"].ReadOnly = mode.ReaderOnly()
	defaults.Canonicalize(j)
	return j
}

// runJob places an allocation of the newest version of the job web.
func runJob(s *endpointstest.Server) {
	s.T.Helper()
	j := jobRow(s, "web")
	e := endpointstest.EvalOf(j, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	endpointstest.MustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: j.JobModifyIndex,
		Place: []*structs.Allocation{{
			ID:         "a",
			Namespace:  j.Namespace,
			JobID:      j.ID,
			JobVersion: j.Version,
			TaskGroup:  "g",
			Name:       structs.AllocName(j.ID, "g", 0),
			NodeID:     "n1",
		}},
	})
}

// Canaries wait for a volume until the allocations of the old version end, and these stay until the canaries
// are promoted. Whatever makes such a version the newest one is rejected.
func TestJobRegister_RejectsCanariesThatCouldNeverGetTheirVolumes(t *testing.T) {
	const (
		alone = `canary: volume "data" has access_mode single-node-writer, so a canary would wait for the allocation ` +
			`that it is to replace; leave canary out`
		other = `job "web": group "g": canary: volume "v" is used by allocation a of the running version (`
	)
	for name, c := range map[string]struct {
		running, canary structs.CSIAccessMode
		kind            structs.Kind
		why             string
	}{
		"an own volume": {
			structs.CSISingleNodeWriter, structs.CSISingleNodeWriter, structs.KindInvalid, alone},
		"a shared volume in another mode": {
			structs.CSIMultiNodeMultipleWriter, structs.CSIMultiNodeReader, structs.KindPrecondition, other},
	} {
		t.Run(name, func(t *testing.T) {
			s := endpointstest.New(t)
			s.AddNode("n1", "")
			// Two registrations at once may both pass the check, so the log may have such a version.
			job := canaryJob(c.canary, 1)
			endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
			endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: canaryJob(c.running, 0)})
			runJob(s)
			endpointstest.WantText(t, endpointstest.Rejected(s, c.kind, structs.JobRegister,
				&structs.JobRegisterRequest{Job: job}), c.why)
			endpointstest.WantText(t, endpointstest.Rejected(s, c.kind, structs.JobPlan,
				&structs.JobPlanRequest{Job: job}), c.why)
			endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.JobRevert,
				&structs.JobRevertRequest{JobID: "web"}), other)
			if version := jobRow(s, "web").Version; version != 1 {
				t.Errorf("a rejected job is at version %d", version)
			}
			endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
			endpointstest.WantText(t, endpointstest.Rejected(s, c.kind, structs.JobScale, &structs.JobScaleRequest{
				JobID: "web",
				Group: "g",
				Count: new(int64(2)),
			}), c.why)
			if version := jobRow(s, "web").Version; version != 2 {
				t.Errorf("a rejected job is at version %d", version)
			}
		})
	}
}

// A version whose canaries can have their volumes is accepted.
func TestJobRevert_AcceptsCanariesThatCanGetTheirVolumes(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "")
	for _, canaries := range []int{1, 0} {
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{
			Job: canaryJob(structs.CSIMultiNodeReader, canaries),
		})
	}
	runJob(s)
	endpointstest.Must(s, structs.JobRevert, &structs.JobRevertRequest{JobID: "web"})
	if j := jobRow(s, "web"); j.Version != 2 || j.TaskGroups[0].Update.Canary != 1 {
		t.Errorf("version %d has %+v", j.Version, j.TaskGroups[0].Update)
	}
}
