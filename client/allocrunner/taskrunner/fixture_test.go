package taskrunner

import (
	"testing"

	"go.uber.org/goleak"

	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testAlloc is an allocation with the tasks named.
func testAlloc(tasks ...string) *structs.Allocation {
	g := &structs.TaskGroup{Name: "g"}
	for _, name := range tasks {
		g.Tasks = append(g.Tasks, &structs.Task{Name: name, Driver: "fake"})
	}
	return &structs.Allocation{
		ID:        "alloc1",
		Namespace: "default",
		Name:      "job.g[0]",
		JobID:     "job",
		Job: &structs.Job{
			ID:         "job",
			Name:       "job",
			Namespace:  "default",
			TaskGroups: []*structs.TaskGroup{g},
		},
		TaskGroup: "g",
	}
}
