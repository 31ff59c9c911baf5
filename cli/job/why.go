package job

import (
	"context"

	"berth/api/jobs"
	"berth/cli/command"
	"berth/structs"
)

var jobWhyCommand = command.Command{
	Name:     "why",
	Args:     "<job>",
	Synopsis: "Show why a job does not run as its file demands",
	Help: `
Shows the chain of reasons: evaluations, the filters that reject nodes,
claims, plugins and nodes. A line with an arrow is the next thing to do. Of a
purged job it shows the allocations that have not ended.`,
	Renders:  true,
	Run:      jobWhy,
	Examples: "berth job why web",
}

// jobWhy takes the argument for a complete ID first, because no list has a purged job.
func jobWhy(ctx context.Context, c *command.Call) error {
	err := command.ShowWhy(ctx, c, c.Arg(0), jobs.Why)
	if !structs.IsKind(err, structs.KindNotFound) {
		return err
	}
	id, err := c.Resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}
	return command.ShowWhy(ctx, c, id, jobs.Why)
}
