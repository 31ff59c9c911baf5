package agent

import (
	"context"
)

// runUnder is like runUntilSignal, and tells a service manager when the agent is ready and when it stops.
func runUnder(ctx context.Context, manager serviceManager, a *Agent) error {
	tell := func(state string) {
		err := manager.Send(state)
		if err != nil {
			a.logger.Warn("failed to tell the state of the agent", "error", err)
		}
	}
	tell(Ready)
	told := make(chan struct{})
	withdraw := context.AfterFunc(ctx, func() {
		tell(Stopping)
		close(told)
	})
	err := a.runUntilSignal(ctx)
	if !withdraw() {
		<-told
	}
	return err
}
