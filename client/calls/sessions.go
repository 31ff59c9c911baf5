package calls

import (
	"context"

	"berth/client/allocrunner/taskrunner"
	"berth/client/drivers/driver"
	"berth/structs"
)

// sessions has a value for each command that runs.
type sessions chan struct{}

// newSessions makes the permits: a command that cannot have one is rejected at once, and does not wait.
func newSessions(most int) sessions { return make(sessions, most) }

func (s sessions) bound(run taskrunner.ExecFunc) taskrunner.ExecFunc {
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
