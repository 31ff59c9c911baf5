package scheduler

import (
	"bytes"
	"encoding/json"

	"berth/structs"
)

// runs holds the parts of a job from which its running tasks were started: all of a group but its count and
// its constraints.
type runs struct {
	Name    string
	PerNode bool
	Meta    map[string]string
	Group   structs.TaskGroup
	Tasks   []structs.Task
}

// encodeRuns encodes it as JSON, in which equal numbers in a task's config are equal for any Go type.
func encodeRuns(j *structs.Job, g *structs.TaskGroup) []byte {
	r := runs{Name: j.Name, PerNode: j.PerNode(), Meta: j.Meta, Group: *g}
	r.Group.Count = 0
	r.Group.Constraints = nil
	r.Group.ReschedulePolicy = nil
	r.Group.Tasks = nil
	for _, t := range g.Tasks {
		task := *t
		task.Constraints = nil
		r.Tasks = append(r.Tasks, task)
	}
	out, err := json.Marshal(r)
	if err != nil {
		return nil // sameRuns takes it for different
	}
	return out
}

// sameRuns reports whether tasks of one version of the group may continue as tasks of the other.
func sameRuns(a *structs.Job, ga *structs.TaskGroup, b *structs.Job, gb *structs.TaskGroup) bool {
	if a == nil || ga == nil {
		return false
	}
	x := encodeRuns(a, ga)
	y := encodeRuns(b, gb)
	return x != nil && bytes.Equal(x, y)
}
