package taskrunner

import (
	"context"

	"berth/client/drivers/driver"
	"berth/structs/jobaction"
	"berth/structs/nodecalls"
)

// Action returns the function that runs the command of an action for a user, as Session of Control does. Its
// placeholders have their values of now.
func Action(t *Task, a *jobaction.JobAction) (ExecFunc, error) {
	run, err := t.Control.Session()
	if err != nil {
		return nil, err
	}

	_, vars := t.builder.variables()
	command := []string{vars.expand(a.Command)}
	for _, arg := range a.Args {
		command = append(command, vars.expand(arg))
	}
	err = nodecalls.CheckExec(command)
	if err != nil {
		return nil, err
	}

	return func(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
		own := *x
		own.Command = command
		return run(ctx, &own)
	}, nil
}
