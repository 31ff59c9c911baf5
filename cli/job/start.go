package job

import (
	"context"

	"berth/api/jobs"
	"berth/cli/command"
	"berth/structs"
)

var jobStartCommand = command.Command{
	Name:     "start",
	Args:     "<job>",
	Synopsis: "Start a stopped job again, as it was, and watch until it runs",
	Help: `
The stopped job is registered again, with the same specification and a new
version. A job that was purged has none: use "berth job run" with its file.`,
	Acts: true,
	Flags: append([]command.Flag{
		consulToken,
		waitFlag,
	}, command.DetachFlags...),
	Run:      jobStart,
	Examples: "berth job start web",
}

// jobStart registers the current version of a stopped job without the mark of the stop. Nobody may have
// changed the job meanwhile.
func jobStart(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	job, _, err := jobs.Get(ctx, c.API, id, nil)
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}
	if !job.Stop {
		return structs.Preconditionf("job %q is not stopped; it is %s", job.ID, job.Status)
	}

	o := jobs.RegisterOptions{EnforceIndex: true, ModifyIndex: job.JobModifyIndex}
	o.ConsulToken = givenConsulToken(c)
	o.Submission, err = jobs.GetSubmission(ctx, c.API, job.ID, job.Version)
	if err != nil && !structs.IsKind(err, structs.KindNotFound) {
		return err
	}
	job.Stop = false
	answer, err := jobs.Register(ctx, c.API, job, o)
	if err != nil {
		return err
	}
	return followJob(ctx, c, answer, "is started again")
}
