package invariant

import (
	"slices"

	"berth/state"
	"berth/structs"
)

// update lets the newest entry replace an allocation of disk, whose pace is one. The group then has some
// successors whose health is not known, and some indexes whose allocations were stopped first.
func (v *View) update(fresh, first int, edits ...func(*structs.Allocation)) *structs.TaskGroup {
	j := *state.Job(v.Tx, structs.DefaultNamespace, "disk")
	g := *j.TaskGroups[0]
	g.Count = 9
	g.Volumes = nil
	g.Update = &structs.UpdateStrategy{MaxParallel: 1}
	j.TaskGroups = []*structs.TaskGroup{&g}
	v.Jobs = append(slices.Clone(v.Jobs), &j)
	v.deploy(j.ID, structs.DeploymentRunning)
	v.Deployments[jobKey(j.ID)].ID = "d"
	newest := v.Tx.Applied()
	add := func(edit func(*structs.Allocation)) {
		index := len(v.ByJob[jobKey(j.ID)])
		v.twin(j.ID, 0, append([]func(*structs.Allocation){func(a *structs.Allocation) {
			a.Name = structs.AllocName(j.ID, g.Name, index)
			a.AllocModifyIndex = newest
			edit(a)
		}}, edits...)...)
	}
	stop := func(a *structs.Allocation) {
		stopped(a)
		a.StopCause = structs.StopReplaced
	}
	add(func(a *structs.Allocation) {
		stop(a)
		a.NextAllocation = "successor"
	})
	for range fresh {
		add(func(a *structs.Allocation) {
			a.CreateIndex = newest
			a.DeploymentID = "d"
			a.DeploymentStatus = nil
		})
	}
	for range first {
		add(func(a *structs.Allocation) {
			stop(a)
			a.AllocModifyIndex = 1
		})
	}
	return &g
}

// twinOfStopped adds a healthy allocation of the update with the index of the one that it has stopped.
func (v *View) twinOfStopped(job string) {
	replaces := slices.IndexFunc(v.ByJob[jobKey(job)], func(a *structs.Allocation) bool {
		return a.NextAllocation == "successor"
	})
	name := v.ByJob[jobKey(job)][replaces].Name
	v.twin(job, 0, func(a *structs.Allocation) {
		a.Name = name
		a.DeploymentID = "d"
		a.DeploymentStatus = &structs.AllocDeploymentStatus{Healthy: new(true)}
	})
}

// paces has the breaches of the pace of an update.
var paces = []breach{
	{rule: "an update keeps its pace", want: "disk, version 0 misses 2 and 0", view: func(v *View) {
		v.update(2, 0)
	}},
	{rule: "an update keeps its pace", name: "two stop first", want: "misses 0 and 2", view: func(v *View) {
		v.update(0, 2)
	}},
	{rule: "an update keeps its pace", name: "one", view: func(v *View) { v.update(1, 0) }},
	{rule: "an update keeps its pace", name: "one more beside those that stop first", want: "misses 1 and 2",
		view: func(v *View) {
			v.update(1, 2)
		}},
	{rule: "an update keeps its pace", name: "one more beside an older one", want: "misses 1 and 1",
		view: func(v *View) {
			v.update(1, 1, func(a *structs.Allocation) { a.CreateIndex-- })
		}},
	{rule: "an update keeps its pace", name: "it replaces nothing now", view: func(v *View) {
		v.update(2, 0, func(a *structs.Allocation) { a.AllocModifyIndex-- })
	}},
	{rule: "an update keeps its pace", name: "for a canary that was promoted", view: func(v *View) {
		v.update(2, 0)
		v.twinOfStopped("disk")
	}},
	{rule: "an update keeps its pace", name: "updated in place", view: func(v *View) {
		v.update(2, 0, func(a *structs.Allocation) { a.CreateIndex = 1 })
	}},
	{rule: "an update keeps its pace", name: "the successors are healthy", view: func(v *View) {
		v.update(2, 0, func(a *structs.Allocation) {
			a.DeploymentStatus = &structs.AllocDeploymentStatus{Healthy: new(true)}
		})
	}},
	{rule: "an update keeps its pace", name: "the successors are unhealthy", view: func(v *View) {
		v.update(2, 0, func(a *structs.Allocation) {
			a.DeploymentStatus = &structs.AllocDeploymentStatus{Healthy: new(false)}
		})
	}},
	{rule: "an update keeps its pace", name: "the successors have ended", view: func(v *View) {
		v.update(2, 0, func(a *structs.Allocation) { a.ClientStatus = structs.AllocFailed })
	}},
	{rule: "an update keeps its pace", name: "canaries", view: func(v *View) {
		v.update(2, 0, func(a *structs.Allocation) {
			a.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
		})
	}},
	{rule: "an update keeps its pace", name: "of another deployment", view: func(v *View) {
		v.update(2, 0, func(a *structs.Allocation) { a.DeploymentID = "other" })
	}},
	{rule: "an update keeps its pace", name: "an index that another one has", view: func(v *View) {
		v.update(1, 1, func(a *structs.Allocation) {
			a.CreateIndex--
			if a.ServerTerminal() {
				a.Name = "disk.g[0]"
			}
		})
	}},
	{rule: "an update keeps its pace", name: "stopped for a move", view: func(v *View) {
		v.update(0, 2, func(a *structs.Allocation) { a.StopCause = "" })
	}},
	{rule: "an update keeps its pace", name: "an index beyond the count", view: func(v *View) {
		v.update(0, 2).Count = 1
	}},
	{rule: "an update keeps its pace", name: "with successors", view: func(v *View) {
		v.update(0, 2, func(a *structs.Allocation) { a.NextAllocation = "successor" })
	}},
	{rule: "an update keeps its pace", name: "without a pace", view: func(v *View) {
		v.update(2, 0).Update.MaxParallel = 0
	}},
	{rule: "an update keeps its pace", name: "with a volume", want: "misses 2 and 0", view: func(v *View) {
		shared("vol")(v.update(2, 0))
	}},
	{rule: "an update keeps its pace", name: "another group", view: func(v *View) { v.update(2, 0).Name = "h" }},
	{rule: "an update keeps its pace", name: "a newer version", view: func(v *View) {
		v.update(2, 0)
		v.Jobs[len(v.Jobs)-1].Version = 9
	}},
}
