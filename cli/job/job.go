// Package job has the commands on jobs: they read job files, and register, change, restart, stop and show
// jobs.
package job

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"berth/api"
	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// Commands are the verbs of berth job.
var Commands = []command.Command{
	{
		Name:     "run",
		Args:     "<file>",
		Synopsis: "Register a job and watch until it runs",
		Help: `
Reads a job from a file in HCL or JSON, also from the output of "berth job
inspect". "-" is the standard input. Watches until all allocations run and the
plugins among them are healthy, and shows the reason of a delay. It follows
the deployment of a service job to its end, or until it needs an operator.

A variable of the job file has the value of the last -var, else of the last
-var-file, else of BERTH_VAR_name or NOMAD_VAR_name in the environment, else
its default.

The exit code is 6 if an allocation could not be placed (berth places it when
capacity is free) or the deployment failed, 1 if an allocation has failed for
good (its deployment still runs, until it fails), 8 after the timeout, and 2
if the file is invalid.`,
		Acts: true,
		Flags: slices.Concat(FileFlags, []command.Flag{
			{Name: "output", Usage: "Write the job as JSON, and do not register it"},
			waitFlag,
			{
				Name:  "check-index",
				Kind:  command.Number,
				Value: "index",
				Usage: "Register only if the stored job's JobModifyIndex is this; 0: if there is none",
			},
			{Name: "preserve-counts", Usage: "Keep the group counts of the stored job"},
			evalPriority,
			consulToken,
		}, command.DetachFlags),
		Run: jobRun,
		Examples: "berth job run web.hcl\n" +
			"berth job run -var image=web:2 -var-file prod.hcl web.hcl\n" +
			"berth job run -output web.hcl > web.json\n" +
			"berth job run -detach web.hcl\n" +
			"berth job run -check-index 42 web.hcl",
	},
	jobPlanCommand,
	{
		Name:     "status",
		Args:     "[job]",
		Synopsis: "List jobs, or show one with its allocations",
		Renders:  true,
		Flags: []command.Flag{
			{Name: "short", Usage: "Leave out groups, deployments and allocations"},
			{Name: "evals", Usage: "Also list the evaluations of the job"},
			{Name: "all-allocs", Usage: "Also list allocations of an earlier job with the same ID"},
			{Name: "verbose", Usage: "Show complete IDs, and list the evaluations of the job"},
		},
		Run: jobStatus.Run,
		Examples: "berth job status\n" +
			"berth job status web\n" +
			"berth job status -evals web",
	},
	jobStopCommand,
	jobStartCommand,
	{
		Name:     "deployments",
		Args:     "<job>",
		Synopsis: "List the deployments of a job",
		Renders:  true,
		Flags: []command.Flag{
			{Name: "latest", Usage: "Show the newest deployment only"},
			{Name: "all", Usage: "Also list deployments of an earlier job with the same ID"},
			command.VerboseFlag,
		},
		Run: listDeployments,
		Examples: "berth job deployments web\n" +
			"berth job deployments -latest web",
	},
	{
		Name:     "promote",
		Args:     "<job>",
		Synopsis: "Promote the canaries of the newest deployment of a job",
		Acts:     true,
		Flags: append([]command.Flag{
			{
				Name:  "group",
				Kind:  command.Strings,
				Value: "name",
				Usage: "Promote only this group; may be repeated",
			},
		}, command.DetachFlags...),
		Run: promoteDeployment,
		Examples: "berth job promote web\n" +
			"berth job promote -group api web",
	},
	{
		Name:     "validate",
		Args:     "<file>",
		Synopsis: "Check a job file",
		Help: `
Checks the file. If an agent answers, a node that is up also checks the
configs of the tasks, and the command warns of a driver that no such node has:
the job would wait for one. Without an agent, or if no node is up, it warns
that the drivers are not checked.`,
		Renders: true,
		Flags:   FileFlags,
		Run:     jobValidate,
		Examples: "berth job validate web.hcl\n" +
			"berth job validate -var image=web:2 web.hcl",
	},
	{
		Name:     "inspect",
		Args:     "<job>",
		Synopsis: "Show a job as it is stored",
		Renders:  true,
		Flags: []command.Flag{
			{
				Name:  "version",
				Kind:  command.Number,
				Value: "number",
				Usage: "Show an earlier version",
			},
			{Name: "hcl", Usage: "Show the source of the job instead, as it was submitted"},
		},
		Run: jobInspect,
		Examples: "berth job inspect web > web.json\n" +
			"berth job inspect -version 3 web\n" +
			"berth job inspect -hcl web > web.hcl",
	},
	jobInitCommand,
	jobHistoryCommand,
	jobWhyCommand,
	jobRevertCommand,
	tagCommand,
	jobScaleCommand,
	scalingEventsCommand,
	jobRestartCommand,
	jobEvalCommand,
	jobAllocsCommand,
	jobDispatchCommand,
	jobPeriodicCommand,
}

// jobRun registers a job and waits until its allocations run and are healthy, unless -detach is given. A
// failed deployment, a placement that is not possible and the end of -timeout end the wait with a code of
// their kind. The registration stays in any case.
func jobRun(ctx context.Context, c *command.Call) error {
	source, err := readJob(c, c.Arg(0))
	if err != nil {
		return err
	}

	job := source.job
	setNamespace(c, job)
	if c.Bool("output") {
		return command.WriteJSON(c.OutcomeOutput(), map[string]*structs.Job{"Job": job})
	}

	o := jobs.RegisterOptions{
		PreserveCounts: c.Bool("preserve-counts"),
		EvalPriority:   int(c.Number("eval-priority")),
		Submission:     source.submission(),
		ConsulToken:    givenConsulToken(c),
	}

	if c.Given("check-index") {
		o.EnforceIndex = true
		o.ModifyIndex = uint64(c.Number("check-index"))
	}

	answer, err := jobs.Register(ctx, c.API, job, o)
	if err != nil {
		return command.InFiles(source.sources(), source.locate(err))
	}

	err = warnOfJob(c, source, answer.Warnings)
	if err != nil {
		return err
	}

	return watch.New(c).Follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch.Watch) error {
		w.WriteChange("request", "Job %q is registered", job.ID)
		if job.StartsOthers() {
			return nil // it runs nothing itself
		}
		return awaitJob(ctx, w, job, answer.EvalID)
	})
}

// awaitJob follows a registered job until it runs. The update of a job of every node goes on with further
// evaluations.
func awaitJob(ctx context.Context, w *watch.Watch, job *structs.Job, evalID string) error {
	w.NextEval = ""
	if evalID != "" {
		err := w.AwaitPlacement(ctx, evalID, w.Call.Bool("wait"))
		if err != nil {
			return err
		}
	}

	stored, _, err := jobs.Get(ctx, w.API, job.ID, &api.Query{Namespace: job.Namespace})
	if err != nil {
		return err
	}

	d, err := deploymentOf(ctx, w, stored)
	switch {
	case err != nil:
		return err
	case d == nil:
		err = w.AwaitRunning(ctx, stored)
		if err != nil || w.NextEval == "" {
			return err
		}

		w.WriteLine("The update goes on with evaluation %s", show.ShortID(w.NextEval))
		return awaitJob(ctx, w, job, w.NextEval)
	}

	succeeded, err := awaitDeployment(ctx, w, d)
	if err != nil || !succeeded { // it waits for an operator
		return err
	}

	return w.AwaitRunning(ctx, stored)
}

// jobInspect writes a job in the form that jobRun reads, JSON or, with -hcl, the file of its submission.
func jobInspect(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}

	job, _, err := jobs.Get(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	if c.Given("version") {
		job, err = jobVersion(ctx, c, id)
		if err != nil {
			return err
		}
	}

	if c.Bool("hcl") {
		return showSource(ctx, c, job)
	}

	return c.Show(job, func() error {
		return command.WriteJSON(c.Out, job)
	})
}

// showSource writes the source of a version of a job. With -json or -t it also shows the variables.
func showSource(ctx context.Context, c *command.Call, version *structs.Job) error {
	s, err := jobs.GetSubmission(ctx, c.API, version.ID, version.Version)
	if err != nil {
		return err
	}
	return c.Show(s, func() error {
		_, err := io.WriteString(c.Out, s.Source)
		return err
	})
}

// jobVersion returns the version of a job that -version names.
func jobVersion(ctx context.Context, c *command.Call, id string) (*structs.Job, error) {
	answer, err := jobs.ListVersions(ctx, c.API, id, jobs.Diffs{})
	if err != nil {
		return nil, err
	}
	return findVersion(answer.Versions, id, uint64(c.Number("version")))
}

var jobStatus = command.Status[*structs.JobListStub, structs.Job]{
	Kind:  "job",
	Sheet: Sheet,
	List:  jobs.List,
	Get:   jobs.Get,
	Print: printJob,
}

// Sheet shows jobs.
var Sheet = command.Sheet[*structs.JobListStub]{
	Titles: "ID|Type|Priority|Status|Running|Submitted",
	Row: func(_ *command.Call, j *structs.JobListStub) []string {
		return []string{
			j.ID,
			j.Type,
			fmt.Sprint(j.Priority),
			orStopped(j.Status, j.Stop),
			runningOf(j.JobSummary),
			show.Age(j.SubmitTime),
		}
	},
}

func orStopped(status string, stopped bool) string {
	if stopped {
		return status + " (stopped)"
	}
	return status
}

// runningOf formats the number of running allocations. It returns "" without a summary.
func runningOf(s *structs.JobSummary) string {
	if s == nil {
		return ""
	}
	n := 0
	for _, g := range s.Summary {
		n += g.Running
	}
	return fmt.Sprint(n)
}

func printJob(ctx context.Context, c *command.Call, j *structs.Job) error {
	parent, periodic, parameterized := schedulePairs(j)
	c.Pairs(
		"ID", j.ID,
		"Name", j.Name,
		"Type", j.Type,
		"Priority", fmt.Sprint(j.Priority),
		"Datacenters", strings.Join(j.Datacenters, ","),
		"Namespace", j.Namespace,
		"Status", orStopped(show.WithDescription(j.Status, j.StatusDescription), j.Stop),
		"Version", fmt.Sprint(j.Version),
		"Submitted", show.Nanos(j.SubmitTime),
		"Runs plugins", strings.Join(j.Plugins(), ", "),
		"Child of", parent,
		"Periodic", periodic,
		"Parameterized", parameterized,
	)

	switch {
	case c.Bool("short"):
		return nil
	case j.StartsOthers():
		return printChildren(ctx, c, j)
	}

	for _, print := range []func(context.Context, *command.Call, string) error{
		printSummary,
		printBlocked,
		printEvals,
		printLatestDeployment,
	} {
		err := print(ctx, c, j.ID)
		if err != nil {
			return err
		}
	}

	allocs, _, err := jobs.AllocationsOf(ctx, c.API, j.ID, c.Bool("all-allocs"), nil)
	if err != nil {
		return err
	}

	alloc.SheetOfJob.Section(c, "Allocations", allocs)
	return nil
}

func printSummary(ctx context.Context, c *command.Call, id string) error {
	sum, _, err := jobs.Summary(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	var rows command.Grid
	for name, g := range show.Sorted(sum.Summary) {
		rows.AddRow(
			name,
			fmt.Sprint(g.Queued),
			fmt.Sprint(g.Starting),
			fmt.Sprint(g.Running),
			fmt.Sprint(g.Complete),
			fmt.Sprint(g.Failed),
			fmt.Sprint(g.Lost),
			fmt.Sprint(g.Unknown),
		)
	}

	c.Section("Groups", "Group|Queued|Starting|Running|Complete|Failed|Lost|Unknown", rows)
	return nil
}

// printEvals lists the evaluations of a job, if an option asks for them.
func printEvals(ctx context.Context, c *command.Call, id string) error {
	if !c.Bool("evals") && !c.Bool("verbose") {
		return nil
	}
	evals, _, err := jobs.EvaluationsOf(ctx, c.API, id, nil)
	if err != nil {
		return err
	}
	alloc.EvalSheet.Section(c, "Evaluations", evals)
	return nil
}

// printBlocked explains which allocations of a job the newest evaluation could not place.
func printBlocked(ctx context.Context, c *command.Call, id string) error {
	evals, _, err := jobs.EvaluationsOf(ctx, c.API, id, nil)
	if err != nil || len(evals) == 0 {
		return err
	}

	slices.SortStableFunc(evals, alloc.NewestEvalFirst)
	waits := func(e *structs.Evaluation) bool { return e.Status == structs.EvalBlocked }
	failed := func(e *structs.Evaluation) bool { return len(e.FailedTGAllocs) > 0 }
	newest := slices.IndexFunc(evals, failed)
	if newest >= 0 && slices.ContainsFunc(evals, waits) {
		c.Printf("\nNot placed (evaluation %s)\n",
			c.ID(evals[newest].ID))
		watch.PrintFailures(c, evals[newest])
	}

	pending := func(e *structs.Evaluation) bool { return e.Status == structs.EvalPending }
	if slices.ContainsFunc(evals, pending) {
		return watch.PrintPaused(ctx, c)
	}

	return nil
}

// waitFlag is the option of commands that watch until a job runs.
var waitFlag = command.Flag{Name: "wait", Usage: "If an allocation cannot be placed now, watch until it can"}

// evalPriority is the option of commands whose evaluation may overtake others.
var evalPriority = command.Flag{
	Name:  "eval-priority",
	Kind:  command.Number,
	Value: "number",
	Usage: "The priority of the evaluation, from 1 to 100. Default: the job's",
}

// consulToken is the option of commands that register the services of a job.
var consulToken = command.Flag{
	Name:  "consul-token",
	Kind:  command.String,
	Value: "token",
	Usage: "The Consul token that may write the services of the job; it is not stored. " +
		"Default: CONSUL_HTTP_TOKEN",
}

// givenConsulToken returns the token of the option or of the environment.
func givenConsulToken(c *command.Call) structs.Secret {
	return structs.Secret(cmp.Or(c.String(consulToken.Name), os.Getenv("CONSUL_HTTP_TOKEN")))
}
