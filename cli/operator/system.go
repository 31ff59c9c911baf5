package operator

import (
	"berth/api/operator"
	"context"

	"berth/cli/command"
	"berth/cli/watch"
)

// SystemCommands are the verbs of berth system.
var SystemCommands = []command.Command{
	{
		Name:     "gc",
		Synopsis: "Delete at once what has ended and is not needed",
		Help: `
The servers delete ended jobs, allocations and evaluations, and nodes that are
down, after the times of job_gc_threshold, eval_gc_threshold and
node_gc_threshold. This command deletes them at once. What is still needed
stays, such as an allocation that holds a volume.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			const servers = "the servers, which delete the rows"
			err := watch.New(c).Await(ctx, servers, watch.SeeServers, func() error {
				return operator.GC(ctx, c.API)
			})
			if err != nil {
				return err
			}
			return c.Report(command.Changed{}, "Collected")
		},
		Examples: "berth system gc",
	},
}
