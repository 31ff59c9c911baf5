package alloc

import (
	"context"
	"fmt"
	"strconv"

	"berth/api"
	"berth/api/allocs"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
)

// taskFlag names a task in the way of an argument.
var taskFlag = command.Flag{
	Name:  "task",
	Kind:  command.String,
	Value: "name",
	Usage: "The task, in place of the argument",
}

var restartCommand = command.Command{
	Name:     "restart",
	Args:     "<alloc> [task]",
	Synopsis: "Restart the running tasks, or one of them",
	Help: `
The node stops the processes and starts them again. This does not count for
the restart policy. With -all-tasks the node stops all tasks and starts them
in the order of their lifecycles, also the ended ones. The command does not
wait for the restarts.`,
	Acts: true,
	Flags: []command.Flag{
		taskFlag,
		{Name: "all-tasks", Usage: "Restart all tasks, also the ended ones"},
	},
	Run: allocRestart,
	Examples: "berth alloc restart 53b92b20\n" +
		"berth alloc restart 53b92b20 server\n" +
		"berth alloc restart -all-tasks 53b92b20",
}

var signalCommand = command.Command{
	Name:     "signal",
	Args:     "<alloc> [task]",
	Synopsis: "Send a signal to the running tasks, or to one of them",
	Acts:     true,
	Flags: []command.Flag{
		{
			Name:    "s",
			Kind:    command.String,
			Value:   "signal",
			Default: "SIGKILL",
			Usage:   "The signal, for example SIGHUP or HUP",
		},
		taskFlag,
	},
	Run: allocSignal,
	Examples: "berth alloc signal -s SIGHUP 53b92b20\n" +
		"berth alloc signal -s USR1 53b92b20 server",
}

var gcCommand = command.Command{
	Name:     "gc",
	Args:     "<alloc>",
	Synopsis: "Remove what is left of an allocation that has ended",
	Acts:     true,
	Run: func(ctx context.Context, c *command.Call) error {
		id, err := c.Resolve(ctx, "alloc", c.Arg(0))
		if err != nil {
			return err
		}
		err = watch.New(c).Await(ctx, NodeOf(id), watch.SeeAlloc(c, id), func() error {
			return allocs.GC(ctx, c.API, id)
		})
		if err != nil {
			return err
		}
		return c.Report(command.Changed{"AllocID": id}, "Allocation %s is removed from its node",
			show.ShortID(id))
	},
	Examples: "berth alloc gc 53b92b20",
}

// taskArg returns the task that the command names, "" for none.
func taskArg(c *command.Call) (string, error) {
	task := c.String("task")
	switch {
	case task == "":
		return c.Arg(1), nil
	case c.Arg(1) != "":
		return "", command.BadUsage("expected either [task] or -task")
	}
	return task, nil
}

// allocRestart waits for the node, which takes the request. The tasks restart after the answer.
func allocRestart(ctx context.Context, c *command.Call) error {
	task, err := taskArg(c)
	if err != nil {
		return err
	}

	all := c.Bool("all-tasks")
	if all && task != "" {
		return command.BadUsage("expected either a task or -all-tasks")
	}

	id, err := c.Resolve(ctx, "alloc", c.Arg(0))
	if err != nil {
		return err
	}

	err = watch.New(c).Await(ctx, NodeOf(id), watch.SeeAlloc(c, id), func() error {
		return allocs.Restart(ctx, c.API, id, api.AllocRestartRequest{TaskName: task, AllTasks: all})
	})
	if err != nil {
		return err
	}

	tasks := "The running tasks"
	switch {
	case all:
		tasks = "All tasks"
	case task != "":
		tasks = "Task " + task
	}

	outcome := command.Changed{"AllocID": id, "TaskName": task, "AllTasks": strconv.FormatBool(all)}
	return c.Report(outcome, "Restart requested: %s of allocation %s", tasks, show.ShortID(id))
}

// allocSignal waits for the node, which sends the signal before it answers.
func allocSignal(ctx context.Context, c *command.Call) error {
	task, err := taskArg(c)
	if err != nil {
		return err
	}

	id, err := c.Resolve(ctx, "alloc", c.Arg(0))
	if err != nil {
		return err
	}

	signal := c.String("s")
	err = watch.New(c).Await(ctx, NodeOf(id), watch.SeeAlloc(c, id), func() error {
		return allocs.Signal(ctx, c.API, id, api.AllocSignalRequest{Task: task, Signal: signal})
	})
	if err != nil {
		return err
	}

	outcome := command.Changed{"AllocID": id, "Task": task, "Signal": signal}
	return c.Report(outcome, "Signal %s is sent to allocation %s", signal, show.ShortID(id))
}

// NodeOf names what a request to the node of an allocation waits for.
func NodeOf(id string) string {
	return fmt.Sprintf("the answer of the node of allocation %s", show.ShortID(id))
}
