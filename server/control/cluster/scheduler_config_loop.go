package cluster

import (
	"context"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/control/loop"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// SchedulerConfigLoop stores the configuration of the scheduler that the server's own configuration has, if
// none is stored.
type SchedulerConfigLoop struct {
	loop.Common
	Config cluster.SchedulerConfiguration
	Retry  backoff.Backoff
}

// Run ends once a configuration is stored, or with ctx.
func (s SchedulerConfigLoop) Run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		if state.SchedulerConfig(s.Store.Read()).ModifyIndex != 0 {
			return
		}

		request := &cluster.SchedulerConfigRequest{
			Config:       s.Config,
			CAS:          true, // another may be stored meanwhile
			WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()},
		}

		_, err := fsm.Propose(ctx, s.Proposer, fsm.SchedulerConfigSet, request)
		if err == nil || structs.IsKind(err, structs.KindConflict) {
			return
		}

		s.Logger.Warn("failed to store the configuration of the scheduler, retrying", "error", err)
		backoff.Sleep(ctx, s.Retry.Delay(failures))
	}
}
