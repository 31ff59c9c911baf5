package job

import (
	"context"
	"slices"
	"strings"

	"berth/api"
	"berth/api/jobs"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
	"berth/structs/jobaction"
)

const actionHelp = `
Runs an action of a job, which is a command that the job file names, in a
running task. Without -alloc the servers pick an allocation: one with the
version of the job if there is one, and then the latest. The exit code is the
command's, or 128 plus the number of the signal that ended it. The command is
killed when this program ends or loses its connection.`

// ActionCommands are verbs of berth job.
var ActionCommands = []command.Command{
	{
		Name:     "actions",
		Args:     "<job>",
		Synopsis: "List the actions of a job",
		Renders:  true,
		Run:      listActions,
		Examples: "berth job actions web",
	},
	{
		Name:     "action",
		Args:     "<action>",
		Synopsis: "Run an action of a job in a running task",
		Help:     actionHelp,
		Flags: slices.Concat([]command.Flag{
			{Name: "job", Kind: command.String, Value: "id", Usage: "The job. It is required"},
			{
				Name:  "alloc",
				Kind:  command.String,
				Value: "id",
				Usage: "The allocation. Default: the servers pick one whose task runs",
			},
			{
				Name:  "group",
				Kind:  command.String,
				Value: "name",
				Usage: "The task group. Default: the only one with the action",
			},
			{
				Name:  "task",
				Kind:  command.String,
				Value: "name",
				Usage: "The task. Default: the only one with the action",
			},
		}, alloc.SessionFlags),
		Run: runAction,
		Examples: "berth job action -job web migrate\n" +
			"berth job action -job web -group api -task server shell\n" +
			"berth job action -job web -alloc 53b92b20 -t=false status",
	},
}

func listActions(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	all, _, err := jobs.ListActions(ctx, c.API, id, nil)
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}
	return c.Show(all, func() error {
		if len(all) == 0 {
			c.Printf("Job %s has no actions\n", id)
			return nil
		}

		var rows command.Grid
		for _, a := range all {
			rows.AddRow(a.Name, a.TaskGroupName, a.TaskName, actionLine(a))
		}
		c.Table("Action|Group|Task|Command", rows)
		return nil
	})
}

// actionLine returns the command of an action as a shell reads it.
func actionLine(a *jobaction.JobAction) string {
	words := []string{structs.ShellWord(a.Command)}
	for _, arg := range a.Args {
		words = append(words, structs.ShellWord(arg))
	}
	return strings.Join(words, " ")
}

// runAction runs an action and ends with its exit code.
func runAction(ctx context.Context, c *command.Call) error {
	at := jobaction.Target{
		Action: c.Arg(0),
		JobID:  c.String("job"),
		Group:  c.String("group"),
		Task:   c.String("task"),
	}
	if at.JobID == "" {
		return structs.Invalidf("-job is missing: expected the job that has the action")
	}

	return alloc.RunSession(ctx, c, alloc.Session{
		Find: func(ctx context.Context) (err error) {
			if c.Given("alloc") {
				at.AllocID, err = c.Resolve(ctx, "alloc", c.String("alloc"))
			}
			return err
		},
		Open: func(ctx context.Context, x *api.Exec) (run alloc.Running, err error) {
			what, step := "the answer of the node", "to see its allocations: "+
				structs.CommandLine(c.Namespace(), "job allocs", at.JobID)
			err = watch.New(c).Await(ctx, what, step, func() (err error) {
				run, err = jobs.OpenAction(ctx, c.API, at, x)
				return err
			})
			return run, err
		},
	})
}
