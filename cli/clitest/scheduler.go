package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/admin"
	"berth/structs/validate"
)

// answerSchedulerConfig keeps a configuration of the scheduler. Its index grows with each change.
func (w *Cluster) answerSchedulerConfig() {
	config := admin.DefaultSchedulerConfiguration()
	config.ModifyIndex = 7
	apitest.On(w.Caller, admin.SchedulerConfigGet,
		func(context.Context, *structs.QueryRequest) (*admin.SchedulerConfigResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			copied := config
			return &admin.SchedulerConfigResponse{SchedulerConfig: &copied}, nil
		})

	apitest.On(w.Caller, admin.SchedulerConfigSet,
		func(_ context.Context, r *admin.SchedulerConfigRequest) (*admin.SchedulerConfigSetResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := validate.SchedulerConfig(&r.Config); err != nil {
				return nil, err
			}

			if r.CAS && r.Config.ModifyIndex != config.ModifyIndex {
				return &admin.SchedulerConfigSetResponse{}, nil
			}

			config = r.Config
			config.ModifyIndex++
			return &admin.SchedulerConfigSetResponse{Updated: true}, nil
		})
}
