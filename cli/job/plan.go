package job

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// berth job plan has the exit codes of the dialect.
const (
	exitPlanChanges = 1
	exitPlanError   = 255
)

var jobPlanCommand = command.Command{
	Name:     "plan",
	Args:     "<file>",
	Synopsis: "Show what the registration of a job would change",
	Help: `
Compares a job file with the stored job field by field, and asks the servers
for the effects on allocations: which would be created, updated in place,
replaced and stopped, which canaries would be placed, which allocations of
other jobs would be displaced, and why any could not be placed. Nothing is
changed.

The exit code is 0 if no allocation would be created or end, 1 if any would,
and 255 after an error.`,
	Renders: true,
	Misuse:  exitPlanError,
	Flags: append([]command.Flag{
		{Name: "diff", Default: "true", Usage: "Show the difference to the stored job"},
		{Name: "verbose", Usage: "Also show the equal fields of blocks that differ"},
	}, FileFlags...),
	Run: jobPlan,
	Examples: "berth job plan web.hcl\n" +
		"berth job plan -var image=web:2 -verbose web.hcl\n" +
		"berth job plan -diff=false web.hcl",
}

// jobPlan waits for the servers, which plan the job without a change. It has the dialect's codes: 0
// without changes of allocations, 1 with changes, and 255 after any error, also a usage that is wrong.
func jobPlan(ctx context.Context, c *command.Call) error {
	changes, err := planJob(ctx, c)
	switch {
	case err != nil:
		fmt.Fprintf(c.Err, "Error: %s\n", strings.TrimSpace(err.Error()))
		return command.ExitError(exitPlanError)
	case changes:
		return command.ExitError(exitPlanChanges)
	}
	return nil
}

// planJob shows the plan of a job and reports whether an allocation would be created or end.
func planJob(ctx context.Context, c *command.Call) (changes bool, err error) {
	source, err := readJob(c, c.Arg(0))
	if err != nil {
		return false, err
	}

	job := source.job
	setNamespace(c, job)
	var answer *jobs.Planned
	err = watch.New(c).Await(ctx, "the servers, which plan the job", watch.SeeServers, func() (err error) {
		answer, err = jobs.Plan(ctx, c.API, job, c.Bool("diff"))
		return err
	})
	if err != nil {
		return false, err
	}

	if answer.Annotations != nil {
		for _, u := range answer.Annotations.DesiredTGUpdates {
			changes = changes || u.Changes()
		}
	}

	return changes, c.Show(answer, func() error {
		printPlan(c, answer)
		return nil
	})
}

// setNamespace gives a job without a namespace the namespace of the command line.
func setNamespace(c *command.Call, job *structs.Job) {
	ns := c.Namespace()
	if ns != "" && job.Namespace == structs.DefaultNamespace {
		job.Namespace = ns
	}
}

func printPlan(c *command.Call, a *jobs.Planned) {
	if a.Diff != nil {
		diffPrinter{c, c.Bool("verbose")}.printJobDiff(a.Diff)
		c.Printf("\n")
	}

	if !c.Bool("diff") && a.Annotations != nil {
		printDesired(c, a.Annotations.DesiredTGUpdates)
	}

	c.Printf("Scheduler dry-run:\n")
	if len(a.FailedTGAllocs) == 0 {
		c.Printf("- All allocations can be placed.\n")
	} else {
		c.Printf("- Not all allocations can be placed now:\n")
		watch.PrintFailures(c, &structs.Evaluation{FailedTGAllocs: a.FailedTGAllocs})
	}

	for _, e := range a.CreatedEvals {
		if e.TriggeredBy == structs.TriggerRollingUpdate {
			c.Printf("- Rolling update, the next batch follows %s later.\n", show.Span(e.Wait()))
		}
	}

	if a.NextPeriodicLaunch != nil {
		c.Printf("- If submitted now, the next launch is at %s.\n", show.Time(*a.NextPeriodicLaunch))
	}

	if a.Annotations != nil && len(a.Annotations.PreemptedAllocs) > 0 {
		printPreempted(c, a.Annotations.PreemptedAllocs)
	}
	if a.Annotations != nil && len(a.Annotations.Volumes) > 0 {
		printVolumes(c, a.Annotations.Volumes)
	}

	for line := range strings.SplitSeq(a.Warnings, "\n") {
		if line != "" {
			fmt.Fprintf(c.Err, "Warning: %s\n", line)
		}
	}

	c.Printf("\nJob Modify Index: %d\n", a.JobModifyIndex)
	c.Printf("To register this job only if the stored one has not changed meanwhile, run:\n\n  %s\n",
		checkedRun(c, a.JobModifyIndex))
}

// printDesired writes the effects on allocations by group.
func printDesired(c *command.Call, desired map[string]*structs.DesiredUpdates) {
	var rows command.Grid
	for group, u := range show.Sorted(desired) {
		row := []string{group}
		for _, n := range []uint64{
			u.Place, u.Stop, u.Migrate, u.InPlaceUpdate, u.DestructiveUpdate, u.Canary,
			u.Preemptions, u.Ignore,
		} {
			row = append(row, fmt.Sprint(n))
		}
		rows.AddRow(row...)
	}

	c.Table("Group|Create|Destroy|Migrate|Update in place|Replace|Canary|Preempt|Unchanged", rows)
	c.Printf("\n")
}

// printVolumes writes the effects on the volumes that the job asks for.
func printVolumes(c *command.Call, volumes []*structs.VolumeChange) {
	var rows command.Grid
	for _, v := range volumes {
		rows.AddRow(v.ID, v.Change, v.Class, structs.FormatBytes(v.Bytes))
	}
	c.Printf("\nVolumes\n")
	c.Table("ID|Change|Class|Size", rows)
}

// fewPreempted is the number below which the plan names each displaced allocation, or else each job that
// loses some.
const fewPreempted = 10

// printPreempted writes the allocations of other jobs that the plan displaces: each, or if they are many
// their number by job, or by type of job.
func printPreempted(c *command.Call, allocs []*structs.AllocListStub) {
	type jobKey struct{ id, namespace, kind string }
	byJob := map[jobKey]int{}
	byType := map[string]int{}
	var each, jobs, types command.Grid
	for _, a := range allocs {
		each.AddRow(c.ID(a.ID), a.JobID, a.TaskGroup)
		byJob[jobKey{a.JobID, a.Namespace, a.JobType}]++
		byType[a.JobType]++
	}

	for key, n := range byJob {
		jobs.AddRow(key.id, key.namespace, key.kind, fmt.Sprint(n))
	}

	slices.SortFunc(jobs, slices.Compare)
	for kind, n := range show.Sorted(byType) {
		types.AddRow(kind, fmt.Sprint(n))
	}

	switch {
	case len(allocs) < fewPreempted:
		c.Section("Preemptions", "Allocation|Job|Group", each)
	case len(byJob) < fewPreempted:
		c.Section("Preemptions", "Job|Namespace|Type|Preemptions", jobs)
	default:
		c.Section("Preemptions", "Type|Preemptions", types)
	}
}

// checkedRun returns the command that registers the job if its index is still the one of the plan.
func checkedRun(c *command.Call, index uint64) string {
	words := []string{"berth job run -check-index", fmt.Sprint(index)}
	for _, flag := range []string{"address", "region", "namespace", "var", "var-file", "allow-path"} {
		for _, value := range c.Strings(flag) {
			words = append(words, "-"+flag, structs.ShellWord(value))
		}
	}
	return strings.Join(append(words, structs.ShellWord(c.Arg(0))), " ")
}
