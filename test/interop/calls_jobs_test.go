package interop

import (
	"fmt"
	"slices"
	"strings"

	public "github.com/hashicorp/nomad/api"
)

// jobCalls read, write, and change jobs.
var jobCalls = []callRow{
	{"Jobs.ParseHCL", func(f *callFixture) error {
		job, err := f.c.Jobs().ParseHCL("job \"j\" {\n  type = \"batch\"\n}\n", true)
		return check(err, func() bool { return *job.ID == "j" && *job.Priority == 50 }, job)
	}},
	{"Jobs.ParseHCLOpts", func(f *callFixture) error {
		job, err := f.c.Jobs().ParseHCLOpts(&public.JobsParseRequest{
			JobHCL:    "variable \"kind\" {}\njob \"j\" {\n  type = var.kind\n}\n",
			Variables: `kind = "batch"`,
		})
		return check(err, func() bool { return *job.Type == "batch" }, job)
	}},
	{"Jobs.Validate", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().Validate(shellJob("j", "true"), nil)
		return check(err, func() bool { return resp.Error == "" && resp.DriverConfigValidated }, resp)
	}},
	{"Jobs.Plan", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().Plan(shellJob("planned", "true"), true, nil)
		return check(err, func() bool { return resp.Diff.Type == "Added" && resp.Annotations != nil }, resp)
	}},
	{"Jobs.PlanOpts", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().PlanOpts(shellJob(f.job, "true"), &public.PlanOptions{Diff: true}, nil)
		return check(err, func() bool { return resp.Diff.Type == "Edited" && resp.JobModifyIndex > 0 }, resp)
	}},
	{"Jobs.Register", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().Register(quickJob("changed", "sleep 600"), nil)
		return check(err, func() bool { return resp.EvalID != "" && resp.JobModifyIndex > 0 }, resp)
	}},
	{"Jobs.EnforceRegister", func(f *callFixture) error {
		job, _, err := f.c.Jobs().Info("changed", nil)
		if err != nil {
			return err
		}
		job.Meta = map[string]string{"version": "1"}
		_, _, err = f.c.Jobs().EnforceRegister(job, *job.JobModifyIndex-1, nil)
		if err == nil {
			return fmt.Errorf("a wrong index is accepted")
		}
		resp, _, err := f.c.Jobs().EnforceRegister(job, *job.JobModifyIndex, nil)
		return check(err, func() bool { return resp.JobModifyIndex > *job.JobModifyIndex }, resp)
	}},
	{"Jobs.RegisterOpts", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().RegisterOpts(quickJob("changed", "sleep 601"), &public.RegisterOptions{
			Submission: &public.JobSubmission{Source: "text", Format: "hcl2"},
		}, nil)
		return check(err, func() bool { return resp.EvalID != "" }, resp)
	}},
	{"Jobs.Submission", func(f *callFixture) error {
		sub, _, err := f.c.Jobs().Submission("changed", 2, nil)
		return check(err, func() bool { return sub.Source == "text" }, sub)
	}},
	{"Jobs.Versions", func(f *callFixture) error {
		versions, _, _, err := f.c.Jobs().Versions("changed", false, nil)
		return check(err, func() bool { return len(versions) == 3 && *versions[0].Version == 2 }, versions)
	}},
	{"Jobs.VersionsOpts", func(f *callFixture) error {
		versions, diffs, _, err := f.c.Jobs().VersionsOpts("changed", &public.VersionsOptions{Diffs: true}, nil)
		return check(err, func() bool { return len(versions) == 3 && len(diffs) == 2 }, diffs)
	}},
	{"Jobs.TagVersion", func(f *callFixture) error {
		return checkIndex(f.c.Jobs().TagVersion("changed", 0, "first", "of the test", nil))
	}},
	{"Jobs.TagVersionOpts", func(f *callFixture) error {
		version := uint64(1)
		req := &public.TagVersionRequest{Version: version}
		return checkIndex(f.c.Jobs().TagVersionOpts("changed", "second", req, nil))
	}},
	{"Jobs.VersionByTag", func(f *callFixture) error {
		job, _, err := f.c.Jobs().VersionByTag("changed", "first", nil)
		return check(err, func() bool { return *job.Version == 0 }, job)
	}},
	{"Jobs.UntagVersion", func(f *callFixture) error {
		return checkIndex(f.c.Jobs().UntagVersion("changed", "second", nil))
	}},
	{"Jobs.Revert", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().Revert("changed", 0, nil, nil, "", "")
		return check(err, func() bool { return resp.EvalID != "" }, resp)
	}},
	{"Jobs.Stable", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().Stable("changed", 0, true, nil)
		return check(err, func() bool { return resp.JobModifyIndex > 0 || resp.LastIndex > 0 }, resp)
	}},
	{"Jobs.Scale", func(f *callFixture) error {
		if err := f.endDeployment("changed"); err != nil {
			return err
		}
		resp, _, err := f.c.Jobs().Scale("changed", "g", new(2), "more", false, nil, nil)
		return check(err, func() bool { return resp.EvalID != "" }, resp)
	}},
	{"Jobs.ScaleWithRequest", func(f *callFixture) error {
		if err := f.endDeployment("changed"); err != nil {
			return err
		}
		resp, _, err := f.c.Jobs().ScaleWithRequest("changed", &public.ScalingRequest{
			Count:  new(int64(1)),
			Target: map[string]string{"Job": "changed", "Group": "g"},
		}, nil)
		return check(err, func() bool { return resp.EvalID != "" }, resp)
	}},
	{"Jobs.ScaleStatus", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().ScaleStatus("changed", nil)
		if err != nil {
			return err
		}
		meta := map[string]any{"n": 1}
		_, _, err = f.c.Jobs().Scale("changed", "g", nil, "no metrics", true, meta, nil)
		if err != nil {
			return err
		}
		told, _, err := f.c.Jobs().ScaleStatus("changed", nil)
		return check(err, func() bool {
			all := told.TaskGroups["g"].Events
			return resp.TaskGroups["g"].Desired == 1 && len(all) == 3 &&
				all[0].Error && all[0].Count == nil && all[0].Message == "no metrics" && all[0].Meta["n"] == 1.0 &&
				*all[1].Count == 1 && all[1].PreviousCount == 2 && all[1].EvalID != nil &&
				*all[2].Count == 2 && all[2].Message == "more" && all[2].Time > 0 && all[2].CreateIndex > 0
		}, told)
	}},
	{"Jobs.ForceEvaluate", func(f *callFixture) error {
		id, _, err := f.c.Jobs().ForceEvaluate("changed", nil)
		return check(err, func() bool { return id != "" }, id)
	}},
	{"Jobs.EvaluateWithOpts", func(f *callFixture) error {
		id, _, err := f.c.Jobs().EvaluateWithOpts("changed", public.EvalOptions{ForceReschedule: true}, nil)
		return check(err, func() bool { return id != "" }, id)
	}},
	{"Jobs.Deregister", func(f *callFixture) error {
		id, _, err := f.c.Jobs().Deregister("changed", false, nil)
		f.awaitEnd("changed")
		return check(err, func() bool { return id != "" }, id)
	}},
	{"Jobs.DeregisterOpts", func(f *callFixture) error {
		_, _, err := f.c.Jobs().DeregisterOpts("changed", &public.DeregisterOptions{
			Purge:           true,
			NoShutdownDelay: true,
		}, nil)
		if err != nil {
			return err
		}
		_, _, err = f.c.Jobs().Info("changed", nil)
		if err == nil || !strings.Contains(err.Error(), "404") {
			return fmt.Errorf("a purged job: %w", err)
		}
		return nil
	}},
}

// childCalls start jobs from others, and read the scaling policy of a job.
var childCalls = []callRow{
	{"Scaling.ListPolicies", func(f *callFixture) error {
		job := quickJob("scaled", "sleep 600")
		job.TaskGroups[0].Scaling = &public.ScalingPolicy{Min: new(int64(1)), Max: new(int64(3))}
		if _, _, err := f.c.Jobs().Register(job, nil); err != nil {
			return err
		}
		all, _, err := f.c.Scaling().ListPolicies(nil)
		return check(err, func() bool { return len(all) == 1 && all[0].Target["Job"] == "scaled" }, all)
	}},
	{"Scaling.GetPolicy", func(f *callFixture) error {
		all, _, err := f.c.Scaling().ListPolicies(nil)
		if err != nil {
			return err
		}
		policy, _, err := f.c.Scaling().GetPolicy(all[0].ID, nil)
		if err == nil {
			_, _, err = f.c.Jobs().Deregister("scaled", true, nil)
		}
		return check(err, func() bool { return *policy.Max == 3 && *policy.Min == 1 }, policy)
	}},
	{"Jobs.Dispatch", func(f *callFixture) error {
		job := shellJob("template", "sleep 600")
		job.Type = new("batch")
		job.ParameterizedJob = &public.ParameterizedJobConfig{MetaOptional: []string{"k"}, Payload: "optional"}
		if _, _, err := f.c.Jobs().Register(job, nil); err != nil {
			return err
		}
		resp, _, err := f.c.Jobs().Dispatch("template", map[string]string{"k": "v"}, []byte("data"), "", nil)
		return check(err, func() bool {
			return strings.HasPrefix(resp.DispatchedJobID, "template/dispatch-")
		}, resp)
	}},
	{"Jobs.DispatchOpts", func(f *callFixture) error {
		resp, _, err := f.c.Jobs().DispatchOpts(&public.DispatchOptions{JobID: "template", Priority: 70}, nil)
		if err != nil {
			return err
		}
		job, _, err := f.c.Jobs().Info(resp.DispatchedJobID, nil)
		if err == nil {
			_, _, err = f.c.Jobs().Deregister("template", true, nil)
		}
		return check(err, func() bool { return *job.Priority == 70 && *job.ParentID == "template" }, job)
	}},
	{"Jobs.PeriodicForce", func(f *callFixture) error {
		job := shellJob("nightly", "true")
		job.Type = new("batch")
		job.Periodic = &public.PeriodicConfig{Enabled: new(true), Spec: new("0 3 1 1 *"), SpecType: new("cron")}
		if _, _, err := f.c.Jobs().Register(job, nil); err != nil {
			return err
		}
		id, _, err := f.c.Jobs().PeriodicForce("nightly", nil)
		if err == nil {
			_, _, err = f.c.Jobs().Deregister("nightly", true, nil)
		}
		return check(err, func() bool { return id != "" }, id)
	}},
}

// nextDeployment registers another version of the job moving, with a canary that waits for its promotion, and
// returns its deployment and the canary.
func (f *callFixture) nextDeployment() (deployment, canary string) {
	f.t.Helper()
	first := f.moving == ""
	f.moving = "moving"
	f.changes++
	job := quickJob(f.moving, fmt.Sprint("sleep 60", f.changes))
	job.Update.Canary = new(1)
	job.Update.AutoPromote = new(false)
	if _, _, err := f.c.Jobs().Register(job, nil); err != nil {
		f.t.Fatal(err)
	}
	if first {
		f.await("the first version", func() (bool, error) {
			d, _, err := f.c.Jobs().LatestDeployment(f.moving, nil)
			return err == nil && d != nil && d.Status == "successful", err
		})
		return f.nextDeployment()
	}
	f.await("a canary", func() (bool, error) {
		d, _, err := f.c.Jobs().LatestDeployment(f.moving, nil)
		if err != nil || d == nil || int(d.JobVersion) != f.changes-1 || d.Status != "running" {
			return false, err
		}
		deployment = d.ID
		g := d.TaskGroups["g"]
		if len(g.PlacedCanaries) == 1 && g.HealthyAllocs == 1 {
			canary = g.PlacedCanaries[0]
		}
		return canary != "", nil
	})
	return deployment, canary
}

// checkUpdate checks the answer of a change of a deployment.
func checkUpdate(resp *public.DeploymentUpdateResponse, err error) error {
	return check(err, func() bool { return resp.DeploymentModifyIndex > 0 }, resp)
}

// awaitStatus waits until a deployment has a status.
func (f *callFixture) awaitStatus(deployment, status string) {
	f.t.Helper()
	f.await("a deployment that is "+status, func() (bool, error) {
		d, _, err := f.c.Deployments().Info(deployment, nil)
		return err == nil && d.Status == status, err
	})
}

// deploymentCalls roll out versions of a job.
var deploymentCalls = []callRow{
	{"Deployments.List", func(f *callFixture) error {
		all, _, err := f.c.Deployments().List(nil)
		return check(err, func() bool { return len(all) > 0 && all[0].JobID != "" }, all)
	}},
	{"Deployments.PrefixList", func(f *callFixture) error {
		id, _ := f.nextDeployment()
		all, _, err := f.c.Deployments().PrefixList(id[:8])
		return check(err, func() bool { return len(all) == 1 && all[0].ID == id }, all)
	}},
	{"Deployments.Info", func(f *callFixture) error {
		latest, _, err := f.c.Jobs().LatestDeployment(f.moving, nil)
		if err != nil {
			return err
		}
		d, _, err := f.c.Deployments().Info(latest.ID, nil)
		return check(err, func() bool { return d.JobID == f.moving && d.TaskGroups["g"].DesiredCanaries == 1 }, d)
	}},
	{"Jobs.LatestDeployment", func(f *callFixture) error {
		d, _, err := f.c.Jobs().LatestDeployment(f.moving, nil)
		return check(err, func() bool { return d.JobID == f.moving }, d)
	}},
	{"Jobs.Deployments", func(f *callFixture) error {
		all, _, err := f.c.Jobs().Deployments(f.moving, true, nil)
		return check(err, func() bool { return len(all) == 2 }, all)
	}},
	{"Deployments.Allocations", func(f *callFixture) error {
		d, _, err := f.c.Jobs().LatestDeployment(f.moving, nil)
		if err != nil {
			return err
		}
		allocs, _, err := f.c.Deployments().Allocations(d.ID, nil)
		return check(err, func() bool { return len(allocs) == 1 && allocs[0].JobID == f.moving }, allocs)
	}},
	{"Deployments.Pause", func(f *callFixture) error {
		d, _, err := f.c.Jobs().LatestDeployment(f.moving, nil)
		if err != nil {
			return err
		}
		resp, _, err := f.c.Deployments().Pause(d.ID, true, nil)
		if err := checkUpdate(resp, err); err != nil {
			return err
		}
		f.awaitStatus(d.ID, "paused")
		resp, _, err = f.c.Deployments().Pause(d.ID, false, nil)
		f.awaitStatus(d.ID, "running")
		return checkUpdate(resp, err)
	}},
	{"Deployments.PromoteAll", func(f *callFixture) error {
		d, _, err := f.c.Jobs().LatestDeployment(f.moving, nil)
		if err != nil {
			return err
		}
		resp, _, err := f.c.Deployments().PromoteAll(d.ID, nil)
		f.awaitStatus(d.ID, "successful")
		return checkUpdate(resp, err)
	}},
	{"Deployments.PromoteGroups", func(f *callFixture) error {
		id, _ := f.nextDeployment()
		resp, _, err := f.c.Deployments().PromoteGroups(id, []string{"g"}, nil)
		f.awaitStatus(id, "successful")
		return checkUpdate(resp, err)
	}},
	{"Deployments.SetAllocHealth", func(f *callFixture) error {
		id, canary := f.nextDeployment()
		resp, _, err := f.c.Deployments().SetAllocHealth(id, nil, []string{canary}, nil)
		f.awaitStatus(id, "failed")
		return checkUpdate(resp, err)
	}},
	{"Deployments.Unblock", func(f *callFixture) error { // a deployment of one region is not blocked
		id, _ := f.nextDeployment()
		resp, _, err := f.c.Deployments().Unblock(id, nil)
		return checkUpdate(resp, err)
	}},
	{"Deployments.Fail", func(f *callFixture) error {
		id, _ := f.nextDeployment()
		resp, _, err := f.c.Deployments().Fail(id, nil)
		f.awaitStatus(id, "failed")
		if err == nil {
			_, _, err = f.c.Jobs().Deregister(f.moving, true, nil)
		}
		return checkUpdate(resp, err)
	}},
}

// endDeployment ends the deployment that the evaluations of a job have made: a job is not scaled before.
func (f *callFixture) endDeployment(job string) error {
	f.await("the evaluations of job "+job, func() (bool, error) {
		evals, _, err := f.c.Jobs().Evaluations(job, nil)
		pending := func(e *public.Evaluation) bool { return e.Status == "pending" }
		return err == nil && !slices.ContainsFunc(evals, pending), err
	})
	return f.retried(func() error {
		d, _, err := f.c.Jobs().LatestDeployment(job, nil)
		if err != nil || d == nil || d.Status != public.DeploymentStatusRunning {
			return err
		}
		_, _, err = f.c.Deployments().Fail(d.ID, nil) // an error if it has succeeded meanwhile
		return err
	})
}
