package client

import (
	"context"

	"berth/client/allocrunner/taskrunner"
	"berth/client/drivers/driver"
	"berth/structs"
)

// execSessions has a value for each command that runs.
type execSessions chan struct{}

// newExecSessions makes the permits: a command that cannot have one is rejected at once, and does not wait.
func newExecSessions(most int) execSessions { return make(execSessions, most) }

func (s execSessions) bound(run taskrunner.ExecFunc) taskrunner.ExecFunc {
	return func(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
		select {
		case s <- struct{}{}:
			defer func() { <-s }()
			return run(ctx, x)
		default:
			return nil, structs.Unavailablef("this node runs %d commands in its tasks, its most; end one of them",
				cap(s))
		}
	}
}
