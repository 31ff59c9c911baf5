// Package change tells what a new version of a job changes for its running tasks.
package change

import (
	"bytes"
	"encoding/json"

	"berth/structs"
)

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
	r := runSpec{
		Name:    j.Name,
		PerNode: j.PerNode(),
		Meta:    j.Meta,
		Group:   *g,
		Connect: connectSpecs(g),
	}

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
	r.Group.Services = nil
	r.Group.Tasks = nil
	for _, t := range g.Tasks {
		task := *t
		task.Constraints = nil
		task.Affinities = nil
		task.Services = nil
		task.RestartPolicy = nil
		task.KillTimeout = 0
		task.KillSignal = ""
		task.ShutdownDelay = 0
		task.Leader = false
		r.Tasks = append(r.Tasks, task)
	}

	out, err := json.Marshal(r)
	if err != nil {
		return nil // differs from any other
	}

	return out
}

// SameRunSpec reports whether tasks of one version of the group may continue as tasks of the other.
func SameRunSpec(a *structs.Job, ga *structs.TaskGroup, b *structs.Job, gb *structs.TaskGroup) bool {
	if a == nil || ga == nil {
		return false
	}
	x := encodeRunSpec(a, ga)
	return x != nil && bytes.Equal(x, encodeRunSpec(b, gb))
}
