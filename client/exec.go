package client

import (
	"context"

	"berth/client/allocrunner/taskrunner"
	"berth/client/drivers/driver"
	"berth/structs"
)

// Exec finds a running task in which a command is to run. The error is not-found if the allocation is not
// here; see allocrunner.Runner.Exec for the others. A node with structs.MaxExecs commands is unavailable.
func (c *Client) Exec(allocID, task string) (taskrunner.ExecFunc, error) {
	r, err := c.runnerHere(allocID)
	if err != nil {
		return nil, err
	}
	run, err := r.Exec(task)
	if err != nil {
		return nil, err
	}
	return c.sessions.bound(run), nil
}

// sessions has a value for each command that runs.
type sessions chan struct{}

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
