package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// answerSchedulerConfig keeps a configuration of the scheduler. Its index grows with each change.
func (w *Cluster) answerSchedulerConfig() {
	config := cluster.DefaultSchedulerConfiguration()
	config.ModifyIndex = 7
	apitest.On(w.Caller, cluster.SchedulerConfigGet,
		func(context.Context, *structs.QueryRequest) (*cluster.SchedulerConfigResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			copied := config
			return &cluster.SchedulerConfigResponse{SchedulerConfig: &copied}, nil
		})

	apitest.On(w.Caller, cluster.SchedulerConfigSet,
		func(_ context.Context, r *cluster.SchedulerConfigRequest) (*cluster.SchedulerConfigSetResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := validate.SchedulerConfig(&r.Config); err != nil {
				return nil, err
			}

			if r.CAS && r.Config.ModifyIndex != config.ModifyIndex {
				return &cluster.SchedulerConfigSetResponse{}, nil
			}

			config = r.Config
			config.ModifyIndex++
			return &cluster.SchedulerConfigSetResponse{Updated: true}, nil
		})
}
