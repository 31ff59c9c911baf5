package fsm

import (
	"slices"

	"berth/structs"
)

// These functions report whether a payload has a field that a later version introduced: see sinceField.

func forceSettles(p *structs.CSIVolumeForceRequest) bool {
	return p.Settle != 0
}

func deregisterSettles(p *structs.CSIVolumeDeregisterRequest) bool {
	return p.Settle != 0
}

// DevicesSince is the version whose servers know devices. An older one stores neither the devices of a node
// nor those of an allocation, and so would apply the next plan in another way.
const DevicesSince = 4

// PortsSince is the version whose servers know networks and ports, likewise.
const PortsSince = 5

func nodeHasDevices(p *structs.NodeRegisterRequest) bool {
	return p.Node != nil && p.Node.NodeResources != nil &&
		len(p.Node.NodeResources.Devices) > 0
}

func jobWantsDevices(p *structs.JobRegisterRequest) bool {
	return hasGroup(p.Job, func(g *structs.TaskGroup) bool {
		return slices.ContainsFunc(g.Tasks, func(t *structs.Task) bool {
			return t != nil && t.Resources != nil && len(t.Resources.Devices) > 0
		})
	})
}

func planGivesDevices(p *structs.Plan) bool {
	return slices.ContainsFunc(p.Place, func(a *structs.Allocation) bool {
		return a != nil && len(a.Devices) > 0
	})
}

func nodeHasNetworks(p *structs.NodeRegisterRequest) bool {
	if p.Node == nil {
		return false
	}
	r := p.Node.NodeResources
	kept := p.Node.ReservedResources
	return r != nil && (len(r.NodeNetworks) > 0 || r.MinDynamicPort != 0 || r.MaxDynamicPort != 0) ||
		kept != nil && kept.Networks != nil
}

// TasksSince is the version whose servers know host volumes, the sources of jobs, and the lifecycle,
// artifacts and templates of tasks, and pass on the data of allocations.
const TasksSince = 7

func nodeHasHostVolumes(p *structs.NodeRegisterRequest) bool {
	return p.Node != nil && len(p.Node.HostVolumes) > 0
}

func jobHasNewFields(p *structs.JobRegisterRequest) bool {
	return p.Submission != nil || hasGroup(p.Job, func(g *structs.TaskGroup) bool {
		d := g.EphemeralDisk
		return len(g.HostVolumes()) > 0 || g.HasLifecycle() ||
			d != nil && (d.Sticky || d.Migrate) ||
			slices.ContainsFunc(g.Tasks, taskHasNewFields)
	})
}

func taskHasNewFields(t *structs.Task) bool {
	return t != nil && (len(t.Artifacts) > 0 || len(t.Templates) > 0)
}

// PlacementSince is the version whose servers know namespaces, preferences and updates of jobs, preemption,
// deployments, drains, and jobs that start others.
const PlacementSince = 8

func jobUsesPlacement(p *structs.JobRegisterRequest) bool {
	j := p.Job
	return p.PreserveCounts || p.Scaling != nil ||
		j != nil && (j.HasPreferences() || j.HasScaling() || hasUpdates(j) || j.StartsOthers())
}

func deregisterSkipsDelay(p *structs.JobDeregisterRequest) bool {
	return p.NoShutdownDelay
}

func stopSkipsDelay(p *structs.AllocStopRequest) bool {
	return p.NoShutdownDelay
}

func hasUpdates(j *structs.Job) bool {
	return j.Update != nil ||
		hasGroup(j, func(g *structs.TaskGroup) bool { return g.Update != nil || g.Migrate != nil })
}

func planDeploys(p *structs.Plan) bool {
	return p.Deployment != nil || len(p.DeploymentUpdates) > 0 || p.Eval != nil && p.Eval.DeploymentID != "" ||
		slices.ContainsFunc(p.Place, func(a *structs.Allocation) bool { return a != nil && a.DeploymentID != "" })
}

func reportsHealth(p *structs.AllocsClientUpdateRequest) bool {
	return slices.ContainsFunc(p.Allocs, func(u *structs.AllocClientUpdate) bool {
		return u != nil && u.DeploymentStatus != nil
	})
}

// reportsOwnHealth reports whether an update has the health of an allocation that is in no deployment.
func reportsOwnHealth(p *structs.AllocsClientUpdateRequest) bool {
	return slices.ContainsFunc(p.Allocs, func(u *structs.AllocClientUpdate) bool {
		return u != nil && u.DeploymentStatus != nil && u.DeploymentID == ""
	})
}

func jobWantsPorts(p *structs.JobRegisterRequest) bool {
	return hasGroup(p.Job, func(g *structs.TaskGroup) bool { return len(g.Networks) > 0 })
}

func planGivesPorts(p *structs.Plan) bool {
	return slices.ContainsFunc(p.Place, func(a *structs.Allocation) bool {
		return a != nil && len(a.Ports) > 0
	})
}

func planUsesPlacement(p *structs.Plan) bool {
	return planKeepsRoom(p) || planDeploys(p) || planBoundsMemory(p)
}

func planBoundsMemory(p *structs.Plan) bool {
	return slices.ContainsFunc(p.Place, func(a *structs.Allocation) bool { return a != nil && a.NoMemoryMax })
}

func planKeepsRoom(p *structs.Plan) bool {
	displaces := slices.ContainsFunc(p.Stop, func(s *structs.PlanStop) bool {
		return s != nil && s.PreemptedBy != ""
	})
	return displaces || slices.ContainsFunc(p.Place, func(a *structs.Allocation) bool {
		return a != nil && len(a.PreemptedAllocations)+len(a.AwaitedAllocations) > 0
	})
}

// ServicesSince is the version whose servers know services.
const ServicesSince = 9

func jobHasServices(p *structs.JobRegisterRequest) bool {
	return hasGroup(p.Job, (*structs.TaskGroup).HasServices)
}

func reportsServices(p *structs.AllocsClientUpdateRequest) bool {
	return slices.ContainsFunc(p.Allocs, func(u *structs.AllocClientUpdate) bool {
		return u != nil && len(u.Services) > 0
	})
}

// NetworksSince is the version whose servers know networks of allocations.
const NetworksSince = 10

func jobWantsNetworks(p *structs.JobRegisterRequest) bool {
	return hasGroup(p.Job, func(g *structs.TaskGroup) bool {
		n := g.Network()
		return n.Isolated() || n != nil && n.DNS != nil
	})
}

func nodeHasModes(p *structs.NodeRegisterRequest) bool {
	return p.Node != nil && len(p.Node.NetworkModes()) > 0
}

func reportsNetworks(p *structs.AllocsClientUpdateRequest) bool {
	return slices.ContainsFunc(p.Allocs, func(u *structs.AllocClientUpdate) bool {
		return u != nil && u.NetworkStatus != nil
	})
}

func hasGroup(j *structs.Job, is func(*structs.TaskGroup) bool) bool {
	return j != nil && slices.ContainsFunc(j.TaskGroups, func(g *structs.TaskGroup) bool {
		return g != nil && is(g)
	})
}

// ConnectSince is the version whose servers know Connect, the addresses and weights of services, and waits of
// templates.
const ConnectSince = 11

// OwnHealthSince is the version whose servers record the health of allocations in no deployment.
const OwnHealthSince = 12

// ReturnedPluginsSince is the version whose servers accept CSI plugins on nodes that take nothing else and
// still have volumes of them.
const ReturnedPluginsSince = 14

func planReturnsPlugins(p *structs.Plan) bool { return p.ReturnsPlugins }

// AllAtOnceSince is the version whose servers refuse a plan of a job with AllAtOnce as a whole.
const AllAtOnceSince = 16

func jobIsAllAtOnce(p *structs.JobRegisterRequest) bool { return p.Job != nil && p.Job.AllAtOnce }

// PluginsOffSince is the version whose servers keep the CSI plugins of system jobs off a node after a drain
// that stopped them by force.
const PluginsOffSince = 17

func drainKeepsPluginsOff(p *structs.NodeDrainedUpdate) bool {
	return slices.ContainsFunc(p.Nodes, func(d structs.DrainedNode) bool { return d.PluginsOff })
}

// StopCausesSince is the version whose servers store the cause of a stop with its allocation.
const StopCausesSince = 18

func planHasStopCauses(p *structs.Plan) bool {
	return slices.ContainsFunc(p.Stop, func(s *structs.PlanStop) bool { return s != nil && s.Cause != "" })
}

// RunDurationSince is the version whose servers know the max_run_duration of a group.
const RunDurationSince = 19

func jobBoundsRuns(p *structs.JobRegisterRequest) bool {
	return hasGroup(p.Job, func(g *structs.TaskGroup) bool { return g.MaxRunDuration != nil })
}

func jobHasLaterFields(p *structs.JobRegisterRequest) bool {
	return hasGroup(p.Job, func(g *structs.TaskGroup) bool {
		return g.UsesConnect() || g.HasServiceAddresses() || slices.ContainsFunc(g.Tasks, taskHasWaits)
	})
}

func taskHasWaits(t *structs.Task) bool {
	return t != nil && slices.ContainsFunc(t.Templates, func(x *structs.Template) bool {
		return x != nil && x.Wait != nil
	})
}
