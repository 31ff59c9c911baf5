package agent

import (
	"context"

	"berth/internal/sdnotify"
)

// runUnder is like runUntilSignal, and tells a service manager when the agent is ready and when it stops.
func runUnder(ctx context.Context, manager sdnotify.Manager, a *Agent) error {
	tell := func(state string) {
		err := manager.Send(state)
		if err != nil {
			a.logger.Warn("failed to tell the state of the agent", "error", err)
		}
	}
	tell(sdnotify.Ready)
	told := make(chan struct{})
	withdraw := context.AfterFunc(ctx, func() {
		tell(sdnotify.Stopping)
		close(told)
	})
	err := a.runUntilSignal(ctx)
	if !withdraw() {
		<-told
	}
	return err
}
