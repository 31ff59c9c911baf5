package explain

import (
	"fmt"
	"slices"
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// deploymentSituations are those of deployments whose allocations are not healthy.
var deploymentSituations = []situation{
	{name: "a deployment that replaces one at a time", nodes: 1, make: after(running(3, updates(0)), allHealthy,
		newVersion(3, updates(0)))},
	{name: "a deployment whose allocations have volumes for themselves", nodes: 1, make: after(twoVolumes,
		running(2, updates(0), ownVolume), claimOwn, allHealthy, newVersion(2, updates(0), ownVolume))},
	{name: "a deployment with an allocation that does not start", nodes: 1, make: after(placed(1, updates(0)),
		report(structs.AllocPending, "", map[string]*structs.TaskState{"t": {
			State:  structs.TaskPending,
			Events: event("Driver Failure", "no such image"),
		}}))},
	{name: "a deployment with an allocation that waits for its volume", nodes: 1, make: after(volume(),
		placed(1, updates(0), usesVolume(structs.CSISingleNodeWriter)), func(f *schedtest.Fleet) {
			f.Register(schedtest.Job("db", structs.JobService, 1))
			f.Schedule()
			f.Claim(f.Allocs("db")[0], "vol", structs.CSISingleNodeWriter)
			webClaims(f)
		})},
	{name: "a deployment with a check that fails", nodes: 1, make: after(running(1, updates(0), checked),
		serves(structs.CheckFailing))},
	{name: "a deployment with a check without a result", nodes: 1, make: after(running(1, updates(0), checked),
		serves(structs.CheckPending))},
	{name: "a deployment with a check that passes since a moment", nodes: 1, make: after(
		running(1, updates(0), checked), wait(time.Minute), serves(structs.CheckPassing))},
	{name: "a deployment with a check of a task that passes since a moment", nodes: 1, make: after(
		running(1, updates(0), taskChecked), wait(time.Minute), serves(structs.CheckPassing))},
	{name: "a deployment whose health is set from outside", nodes: 1, make: running(1, updates(0),
		func(g *structs.TaskGroup) { g.Update.HealthCheck = structs.HealthManual })},
	{name: "a deployment that failed for an allocation that was not healthy in time", nodes: 1, make: after(
		running(1, updates(0)), unhealthy(structs.AllocRunning, nil),
		setDeployment(structs.DeploymentFailed, structs.DeploymentFailedByAlloc), (*schedtest.Fleet).Schedule)},
	{name: "a deployment that failed for an allocation whose health is set from outside", nodes: 1, make: after(
		running(1, updates(0), func(g *structs.TaskGroup) { g.Update.HealthCheck = structs.HealthManual }),
		unhealthy(structs.AllocRunning, nil),
		setDeployment(structs.DeploymentFailed, structs.DeploymentFailedByAlloc), (*schedtest.Fleet).Schedule)},
	{name: "a deployment that failed for an allocation whose task failed", nodes: 1, make: after(
		running(1, updates(0), rescheduled(0)), unhealthy(structs.AllocFailed, exitCode),
		setDeployment(structs.DeploymentFailed, structs.DeploymentFailedByAlloc), (*schedtest.Fleet).Schedule)},
	{name: "a deployment that failed while an allocation waited for its next attempt", nodes: 1, make: after(
		running(1, updates(0), rescheduled(5)), unhealthy(structs.AllocFailed, exitCode),
		(*schedtest.Fleet).Schedule, setDeployment(structs.DeploymentFailed, structs.DeploymentFailedByUser),
		(*schedtest.Fleet).Schedule)},
	{name: "a second version whose deployment failed", nodes: 1, make: after(
		running(2), newVersion(2, updates(1)),
		setDeployment(structs.DeploymentFailed, structs.DeploymentFailedByDeadline), (*schedtest.Fleet).Schedule)},
	{name: "a deployment with an allocation that failed", nodes: 1, make: after(
		running(1, updates(0), rescheduled(5)), unhealthy(structs.AllocFailed, exitCode),
		(*schedtest.Fleet).Schedule)},
	{name: "canaries that are not healthy", nodes: 1, make: after(running(2), newVersion(2, updates(1)))},
	{name: "an unhealthy canary beside a healthy allocation that is updated in place", nodes: 1, make: after(
		running(2, updates(1)), allHealthy, newVersion(2, updates(0)), running(2, updates(1)),
		othersAreHealthy)},
	{name: "healthy canaries of one group of two", nodes: 1, make: after(twoGroups(1), twoGroups(2),
		canaryOf("g", true), canaryOf("h", false))},
	{name: "healthy canaries of one group of two, which are promoted by themselves", nodes: 1, make: after(
		twoGroups(1), twoGroups(2, autoPromotes), canaryOf("g", true))},
	{name: "canaries of two groups of which one is promoted by itself", nodes: 1, make: after(
		twoGroups(1), twoGroups(2, firstAutoPromotes))},
	{name: "a deployment that failed after it had lost an allocation", nodes: 2, make: after(
		running(1, updates(0)), nodeStatus("n0", structs.NodeDown), (*schedtest.Fleet).Schedule,
		setDeployment(structs.DeploymentFailed, structs.DeploymentFailedByDeadline), (*schedtest.Fleet).Schedule)},
	{name: "canaries that are promoted by themselves", nodes: 1, make: after(running(2),
		newVersion(2, updates(1), autoPromotes))},
	{name: "a deployment without a place for its allocations", nodes: 1, make: after(ineligible("n0"),
		placed(1, updates(0)))},
	{name: "a deployment that is paused before its allocations have a place", nodes: 1, make: after(
		ineligible("n0"), placed(1, updates(0)),
		setDeployment(structs.DeploymentPaused, structs.DeploymentIsPaused), (*schedtest.Fleet).Schedule)},
}

// newVersion registers another version of the job web, whose first allocations run.
func newVersion(count int, edits ...func(*structs.TaskGroup)) func(*schedtest.Fleet) {
	return running(count, append(edits, setsVersion)...)
}

func setsVersion(g *structs.TaskGroup) {
	g.Tasks[0].Env = map[string]string{"VERSION": "2"}
}

func allHealthy(f *schedtest.Fleet) {
	for _, a := range f.Allocs("web") {
		f.Report(a, &structs.AllocClientUpdate{
			ClientStatus:     structs.AllocRunning,
			TaskStates:       a.TaskStates,
			DeploymentID:     a.DeploymentID,
			DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)},
		})
	}
	f.Schedule()
}

func unhealthy(status string, tasks map[string]*structs.TaskState) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		a := f.Allocs("web")[0]
		if tasks == nil {
			tasks = a.TaskStates
		}
		f.Report(a, &structs.AllocClientUpdate{
			ClientStatus:     status,
			TaskStates:       tasks,
			DeploymentID:     a.DeploymentID,
			DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(false)},
		})
	}
}

// othersAreHealthy reports the health of the allocations of the deployment: only canaries are not healthy.
func othersAreHealthy(f *schedtest.Fleet) {
	for _, a := range f.Allocs("web") {
		reportHealth(f, a, !a.DeploymentStatus.IsCanary())
	}
}

// canaryOf reports the health of the canary of a group.
func canaryOf(group string, healthy bool) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		for _, a := range f.Allocs("web") {
			if a.TaskGroup == group && a.DeploymentStatus.IsCanary() {
				reportHealth(f, a, healthy)
			}
		}
	}
}

func reportHealth(f *schedtest.Fleet, a *structs.Allocation, healthy bool) {
	f.Report(a, &structs.AllocClientUpdate{
		ClientStatus:     structs.AllocRunning,
		DeploymentID:     a.DeploymentID,
		DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: &healthy},
	})
}

// twoGroups registers a version of the job web with two groups, each with a canary.
func twoGroups(version int, edits ...func(*structs.TaskGroup)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		var groups []*structs.TaskGroup
		for _, name := range []string{"g", "h"} {
			first := func(g *structs.TaskGroup) {
				g.Name = name
				g.Tasks[0].Env = map[string]string{"VERSION": fmt.Sprint(version)}
			}
			all := slices.Concat([]func(*structs.TaskGroup){first, updates(1)}, edits)
			groups = append(groups, schedtest.Job("web", structs.JobService, 2, all...).TaskGroups...)
		}
		j := schedtest.Job("web", structs.JobService, 2)
		j.TaskGroups = groups
		f.Register(j)
		f.Tick()
	}
}

func autoPromotes(g *structs.TaskGroup) {
	g.Update.AutoPromote = true
}

func firstAutoPromotes(g *structs.TaskGroup) {
	g.Update.AutoPromote = g.Name == "g"
}

func twoVolumes(f *schedtest.Fleet) {
	f.Volume("vol[0]")
	f.Volume("vol[1]")
}

func ownVolume(g *structs.TaskGroup) {
	usesVolume(structs.CSISingleNodeWriter)(g)
	g.Volumes["data"].PerAlloc = true
}

func claimOwn(f *schedtest.Fleet) {
	for _, a := range f.Allocs("web") {
		f.Claim(a, structs.PerAllocID("vol", a.Index()), structs.CSISingleNodeWriter)
	}
}

// checked gives the group a service with a check.
func checked(g *structs.TaskGroup) {
	g.Update.HealthCheck = structs.HealthChecks
	g.Services = []*structs.Service{{
		Name:     "www",
		Provider: structs.ServiceProviderBerth,
		Checks:   []*structs.ServiceCheck{{Name: "up", Type: "http", Path: "/"}},
	}}
}

// taskChecked gives the task a service with a check.
func taskChecked(g *structs.TaskGroup) {
	checked(g)
	g.Tasks[0].Services = g.Services
	g.Services = nil
}

// serves reports the service with the state of its check.
func serves(status string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		a := state.Alloc(f.Store.Read(), f.Allocs("web")[0].ID)
		f.Report(a, &structs.AllocClientUpdate{
			ClientStatus: structs.AllocRunning,
			TaskStates:   a.TaskStates,
			Services:     []*structs.ServiceInstance{{ID: "www-1", ServiceName: "www", Status: status}},
		})
	}
}
