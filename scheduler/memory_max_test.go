package scheduler

import (
	"testing"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// TestPlace_MemoryMaxCountsByTheSwitch places a group in the cases of both switches. The setting of the pool
// comes before that of the cluster.
func TestPlace_MemoryMaxCountsByTheSwitch(t *testing.T) {
	setting := func(on *bool) *cluster.NodePoolSchedulerConfiguration {
		return &cluster.NodePoolSchedulerConfiguration{MemoryOversubscriptionEnabled: on}
	}
	for name, c := range map[string]struct {
		cluster bool
		pool    *cluster.NodePoolSchedulerConfiguration
		most    int // memory_max
		bounded bool
	}{
		"off":                            {false, setting(nil), 200, true},
		"on":                             {true, setting(nil), 200, false},
		"on, in a pool without settings": {true, nil, 200, false},
		"on, and off in the pool":        {true, setting(new(false)), 200, true},
		"off, and on in the pool":        {false, setting(new(true)), 200, false},
		"off, without a memory_max":      {false, setting(nil), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			config := cluster.DefaultSchedulerConfiguration()
			config.MemoryOversubscriptionEnabled = c.cluster
			do(w, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
			do(w, state.NodePoolApply, &cluster.NodePoolApplyRequest{Pool: &cluster.NodePool{
				Name:                   "gpu",
				SchedulerConfiguration: c.pool,
			}})
			n := aNode("n1")
			n.NodePool = "gpu"
			do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n})
			job := aJob("web", structs.JobService)
			job.NodePool = "gpu"
			job.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = c.most
			w.job(job)
			w.run("web")
			w.wantPlaced("web", "0@n1")
			if got := w.allocs("web")[0].NoMemoryMax; got != c.bounded {
				t.Errorf("bounded to the reserved memory: %v", got)
			}
		})
	}
}
