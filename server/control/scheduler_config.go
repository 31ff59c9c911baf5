package control

import (
	"context"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
	"berth/structs"
	"berth/structs/admin"
)

// schedulerConfigLoop stores the configuration of the scheduler that the server's own configuration has, if
// none is stored.
type schedulerConfigLoop struct{ Deps }

func (s schedulerConfigLoop) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		if state.SchedulerConfig(s.Store.Read()).ModifyIndex != 0 {
			return
		}

		request := &admin.SchedulerConfigRequest{
			Config:       s.Config.Scheduler,
			CAS:          true, // another may be stored meanwhile
			WriteOptions: s.stamp(""),
		}

		err := propose(ctx, s.Deps, fsm.SchedulerConfigSet, request)
		if err == nil || structs.IsKind(err, structs.KindConflict) {
			return
		}

		s.Logger.Warn("failed to store the configuration of the scheduler, retrying", "error", err)
		backoff.Sleep(ctx, s.Config.Retry.Delay(failures))
	}
}
