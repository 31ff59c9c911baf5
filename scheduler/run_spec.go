package scheduler

import (
	"bytes"
	"encoding/json"
	"maps"

	"berth/structs"
)

// This file decides whether a task may run on under a new version of its job. One whose tasks may run on gets
// the new version in place. annotate.go tells the same to a user, before the job is registered.

// runSpec holds the parts of a job from which its running tasks were started: all of a group except its
// count, its constraints and its preferences, and what a node of any version reads anew when it stops or
// restarts a task that runs.
type runSpec struct {
	Name    string
	PerNode bool
	Meta    map[string]string
	Group   structs.TaskGroup
	Tasks   []structs.Task
	Connect []connectSpec `json:",omitempty"`
}

// connectSpec has the parts of a service in the service mesh that its tasks depend on. A proxy learns of the
// others, such as its upstreams, from Consul while it runs.
type connectSpec struct {
	Kind    structs.TaskKind
	Port    string           // of the sidecar
	Gateway *structs.Gateway `json:",omitempty"`
}

func connectSpecs(g *structs.TaskGroup) (all []connectSpec) {
	// The order of the services is a part of the specification, as it is elsewhere in JSON.
	for _, s := range g.Services {
		if s.Connect == nil {
			continue
		}

		c := connectSpec{
			Kind:    s.TaskKind(),
			Gateway: s.Connect.Gateway,
		}

		if s.Connect.SidecarService != nil {
			c.Port = s.Connect.SidecarService.Port
		}

		all = append(all, c)
	}

	return all
}

// encodeRunSpec encodes it as JSON, in which equal numbers in a task's config are equal for any Go type.
func encodeRunSpec(j *structs.Job, g *structs.TaskGroup) []byte {
	out, err := json.Marshal(runSpecOf(j, g))
	if err != nil {
		return nil // differs from any other
	}

	return out
}

// runSpecOf copies the parts and clears the others.
func runSpecOf(j *structs.Job, g *structs.TaskGroup) runSpec {
	// The fields are cleared in copies: the rows of jobs are shared and immutable.
	r := runSpec{
		Name:    j.Name,
		PerNode: j.PerNode(),
		Meta:    j.Meta,
		Group:   *g,
		Connect: connectSpecs(g),
	}

	// These decide the number, the place and the end of allocations, or the agent reads them anew.
	r.Group.Count = 0
	r.Group.Constraints = nil
	r.Group.Affinities = nil
	r.Group.Spreads = nil
	r.Group.RestartPolicy = nil
	r.Group.ShutdownDelay = nil
	r.Group.MaxRunDuration = nil
	r.Group.ReschedulePolicy = nil
	r.Group.Update = nil
	r.Group.Migrate = nil
	r.Group.Disconnect = nil
	r.Group.Scaling = nil
	r.Group.Volumes = withoutGrowth(g.Volumes)
	r.Group.Services = nil
	r.Group.Tasks = nil
	for _, t := range g.Tasks {
		task := *t

		// The agent reads these anew when it stops or restarts the task, or registers its services.
		task.Constraints = nil
		task.Affinities = nil
		task.Services = nil
		task.RestartPolicy = nil
		task.KillTimeout = 0
		task.KillSignal = ""
		task.ShutdownDelay = 0
		task.Leader = false
		task.Actions = nil // the agent reads them when a user runs one
		task.Identity = withoutTTL(t.Identity)
		task.Identities = nil
		for _, i := range t.Identities {
			task.Identities = append(task.Identities, withoutTTL(i))
		}

		r.Tasks = append(r.Tasks, task)
	}

	return r
}

// withoutTTL copies an identity without the time to live of its tokens. nil is allowed.
func withoutTTL(i *structs.WorkloadIdentity) *structs.WorkloadIdentity {
	if i == nil {
		return nil
	}
	c := *i
	c.TTL = 0
	return &c
}

// withoutGrowth returns the volumes without the sizes of volumes that the servers expand while tasks use
// them. The volume of a single allocation has the size with which it was created.
func withoutGrowth(all map[string]*structs.VolumeRequest) map[string]*structs.VolumeRequest {
	changed := maps.Clone(all)
	for alias, v := range all {
		if v != nil && v.Class != "" && v.Lifecycle == "" {
			c := *v
			c.Size = 0
			changed[alias] = &c
		}
	}
	return changed
}

// sameRunSpec reports whether tasks of one version of the group may continue as tasks of the other.
func sameRunSpec(a *structs.Job, ga *structs.TaskGroup, b *structs.Job, gb *structs.TaskGroup) bool {
	if a == nil || ga == nil {
		return false
	}
	x := encodeRunSpec(a, ga)
	return x != nil && bytes.Equal(x, encodeRunSpec(b, gb))
}
