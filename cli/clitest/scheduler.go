package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/validate"
)

// answerSchedulerConfig keeps a configuration of the scheduler. Its index grows with each change.
func (w *Cluster) answerSchedulerConfig() {
	config := structs.DefaultSchedulerConfiguration()
	config.ModifyIndex = 7
	apitest.On(w.Caller, structs.SchedulerConfigGet,
		func(context.Context, *structs.QueryRequest) (*structs.SchedulerConfigResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			copied := config
			return &structs.SchedulerConfigResponse{SchedulerConfig: &copied}, nil
		})

	apitest.On(w.Caller, structs.SchedulerConfigSet,
		func(_ context.Context, r *structs.SchedulerConfigRequest) (*structs.SchedulerConfigSetResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := validate.SchedulerConfig(&r.Config); err != nil {
				return nil, err
			}

			if r.CAS && r.Config.ModifyIndex != config.ModifyIndex {
				return &structs.SchedulerConfigSetResponse{}, nil
			}

			config = r.Config
			config.ModifyIndex++
			return &structs.SchedulerConfigSetResponse{Updated: true}, nil
		})
}
