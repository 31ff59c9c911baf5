package allocrunner

import (
	"testing"
	"testing/synctest"

	"berth/structs"
)

// The driver and the variables of a task know only a memory_max that counts.
func TestTask_HasTheMemoryMaxThatCounts(t *testing.T) {
	for name, bounded := range map[string]bool{"counts": false, "does not count": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				alloc := testAlloc("web")
				alloc.NoMemoryMax = bounded
				task := alloc.Job.TaskGroups[0].Tasks[0]
				task.Resources = &structs.Resources{CPU: 1, MemoryMB: 20, MemoryMaxMB: 40}
				a.new(alloc)
				synctest.Wait()
				got := fx.machine.Task("alloc1/web").Config
				most, variable := 40, "40"
				if bounded {
					most, variable = 0, ""
				}
				if got.Resources.MemoryMB != 20 || got.Resources.MemoryMaxMB != most ||
					got.Env["NOMAD_MEMORY_MAX_LIMIT"] != variable {
					t.Errorf("the driver got %+v, and the limit %q", got.Resources, got.Env["NOMAD_MEMORY_MAX_LIMIT"])
				}
				if task.Resources.MemoryMaxMB != 40 {
					t.Error("the job has changed")
				}
			})
		})
	}
}
