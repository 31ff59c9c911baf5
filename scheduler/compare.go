package scheduler

import (
	"bytes"
	"encoding/json"

	"berth/structs"
)

// runs is what of a job its running tasks were started from: all of a group but how many of it there
// are and where they may be.
type runs struct {
	Name    string
	PerNode bool
	Meta    map[string]string
	Group   structs.TaskGroup
	Tasks   []structs.Task
}

// encodeRuns writes it as JSON, in which numbers in a task's config are equal whichever way they came.
func encodeRuns(j *structs.Job, g *structs.TaskGroup) []byte {
	r := runs{Name: j.Name, PerNode: j.PerNode(), Meta: j.Meta, Group: *g}
	r.Group.Count, r.Group.Constraints, r.Group.ReschedulePolicy, r.Group.Tasks = 0, nil, nil, nil
	for _, t := range g.Tasks {
		task := *t
		task.Constraints = nil
		r.Tasks = append(r.Tasks, task)
	}
	out, err := json.Marshal(r)
	if err != nil {
		return nil // it cannot be compared, so it is not the same
	}
	return out
}

// sameRuns reports whether tasks of the one version of the group may go on as tasks of the other.
func sameRuns(a *structs.Job, ga *structs.TaskGroup, b *structs.Job, gb *structs.TaskGroup) bool {
	if a == nil || ga == nil {
		return false
	}
	x, y := encodeRuns(a, ga), encodeRuns(b, gb)
	return x != nil && bytes.Equal(x, y)
}
