package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

var jobRestartCommand = command.Command{
	Name:     "restart",
	Args:     "<job>",
	Synopsis: "Restart the running tasks of a job, batch by batch",
	Help: `
Restarts the tasks of the running allocations in batches. The next batch
follows when the tasks run again. With -reschedule allocations are replaced
instead, perhaps on other nodes, and the next batch follows when their
replacements run.`,
	Acts: true,
	Flags: []command.Flag{
		{
			Name:    "batch-size",
			Kind:    command.String,
			Value:   "number|percent",
			Default: "1",
			Usage:   "Allocations in a batch, or a percentage of the running ones, such as 25%",
		},
		{
			Name:    "batch-wait",
			Kind:    command.String,
			Value:   "duration|ask",
			Default: "0s",
			Usage:   "The pause between two batches; ask asks on the terminal before each",
		},
		{Name: "group", Kind: command.Strings, Value: "name",
			Usage: "Restart only this group; may be repeated"},
		{Name: "task", Kind: command.Strings, Value: "name",
			Usage: "Restart only this task; may be repeated"},
		{Name: "all-tasks", Usage: "Also restart ended tasks, in the order of their lifecycles"},
		{Name: "reschedule", Usage: "Replace the allocations"},
		{
			Name:    "on-error",
			Kind:    command.String,
			Value:   "action",
			Default: "fail",
			Usage:   "After a fault: fail, continue, or ask on the terminal",
		},
		{
			Name:    "timeout",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "5m",
			Usage:   "How long to wait for one allocation",
		},
		{Name: "yes", Usage: "Answer each question with yes"},
		{
			Name:  alloc.NoShutdownDelay.Name,
			Usage: "With -reschedule, skip the shutdown_delay of groups and tasks",
		},
		command.VerboseFlag,
	},
	Run: jobRestart,
	Examples: "berth job restart web\n" +
		"berth job restart -batch-size 25% -batch-wait 30s -group app web\n" +
		"berth job restart -reschedule web",
}

// jobRestart restarts the running allocations in batches, and waits for each batch. A fault ends it unless
// -on-error lets it go on: then the command ends with the code of a precondition after the last batch.
func jobRestart(ctx context.Context, c *command.Call) error {
	err := checkRestart(c)
	if err != nil {
		return err
	}

	id := c.Arg(0)
	job, _, err := jobs.Get(ctx, c.API, id, nil)
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}

	err = checkRestarted(c, job)
	if err != nil {
		return err
	}

	allocs, _, err := jobs.AllocationsOf(ctx, c.API, id, false, nil)
	if err != nil {
		return err
	}

	groups := c.Strings("group")
	allocs = slices.DeleteFunc(allocs, func(a *structs.AllocListStub) bool {
		return a.ClientStatus != structs.AllocRunning || a.DesiredStatus != structs.AllocDesiredRun ||
			len(groups) > 0 && !slices.Contains(groups, a.TaskGroup) ||
			!c.Bool("reschedule") && len(restartedTasks(c, a)) == 0
	})

	slices.SortFunc(allocs, func(a, b *structs.AllocListStub) int { return strings.Compare(a.Name, b.Name) })
	if c.Bool(alloc.NoShutdownDelay.Name) && !c.Bool("reschedule") {
		fmt.Fprintln(c.Err, "Warning: -no-shutdown-delay has an effect only with -reschedule")
	}

	done, failed, err := restartBatches(ctx, c, allocs)
	switch {
	case err != nil:
		return err
	case failed > 0:
		return structs.Preconditionf("%s of %d could not be restarted; to see why: %s",
			show.Plural(failed, "allocation"), len(allocs),
			structs.CommandLine(c.Namespace(), "job why", id))
	}

	return c.Report(command.Changed{"JobID": id, "Allocations": fmt.Sprint(done)},
		"Job %q: %s restarted", id, show.Plural(done, "allocation"))
}

// restartBatches restarts allocations batch by batch. It counts the restarts and the failures. It
// returns an error if it is to end at the first failure.
func restartBatches(
	ctx context.Context, c *command.Call, allocs []*structs.AllocListStub,
) (done, failed int, err error) {
	size, _ := batchSize(c, len(allocs)) // checkRestart has checked both
	pace, _ := paceOf(c)
	for batch := range slices.Chunk(allocs, size) {
		faults := 0
		for _, a := range batch {
			err := restartOne(ctx, c, a)
			switch {
			case err == nil:
				done++
			case c.String("on-error") == onErrorFail:
				return done, 0, err
			default:
				faults++
				fmt.Fprintf(c.Err, "Error: allocation %s: %v\n", c.ID(a.ID), err)
			}
		}

		failed += faults
		last := batch[len(batch)-1] == allocs[len(allocs)-1]
		if last {
			break
		}

		goOn, err := pace.beforeNext(ctx, faults)
		if err != nil || !goOn {
			return done, failed, err
		}
	}

	return done, failed, nil
}

func checkRestart(c *command.Call) error {
	_, err := batchSize(c, 0)
	if err == nil {
		_, err = paceOf(c)
	}

	tasks := c.Strings("task")
	switch {
	case err != nil:
		return err
	case !slices.Contains([]string{onErrorFail, onErrorContinue, ask}, c.String("on-error")):
		return command.BadUsage("the option -on-error is %q, expected fail, continue or ask",
			c.String("on-error"))
	case c.Bool("reschedule") && (c.Bool("all-tasks") || len(tasks) > 0):
		return command.BadUsage("-reschedule replaces whole allocations; it excludes -task and -all-tasks")
	case c.Bool("all-tasks") && len(tasks) > 0:
		return command.BadUsage("expected either -task or -all-tasks")
	}

	return nil
}

// batchSize returns the size of a batch of some allocations. A percentage is rounded up.
func batchSize(c *command.Call, allocs int) (int, error) {
	text := c.String("batch-size")
	number, isPercent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || n == 0 || isPercent && n > 100 {
		return 0, command.BadUsage(
			"the option -batch-size is %q, expected a number from 1 or a percentage from 1%% to 100%%", text)
	}

	size := int(n)
	if isPercent {
		size = (allocs*size + 99) / 100
	}

	return max(size, 1), nil
}

// checkRestarted returns an error if the job lacks a group or a task that the options name.
func checkRestarted(c *command.Call, job *structs.Job) error {
	groups := c.Strings("group")
	tasks := map[string]bool{}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			tasks[t.Name] = tasks[t.Name] || len(groups) == 0 || slices.Contains(groups, g.Name)
		}
	}

	for _, name := range groups {
		if job.Group(name) == nil {
			return structs.NotFoundf("job %q has no group %q", job.ID, name)
		}
	}

	for _, name := range c.Strings("task") {
		if !tasks[name] {
			return structs.NotFoundf("job %q has no task %q in a group to restart", job.ID, name)
		}
	}

	return nil
}

// restartedTasks returns the names of the tasks of an allocation that are to restart: all running ones, or
// the running ones that the options name.
func restartedTasks(c *command.Call, a *structs.AllocListStub) (names []string) {
	chosen := c.Strings("task")
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		s := a.TaskStates[name]
		if s != nil && s.State == structs.TaskRunning && (len(chosen) == 0 || slices.Contains(chosen, name)) {
			names = append(names, name)
		}
	}
	return names
}

func restartOne(ctx context.Context, c *command.Call, a *structs.AllocListStub) error {
	ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
	defer cancel()
	w := watch.New(c)
	w.WaitFor("job", a.Namespace, a.JobID)
	if c.Bool("reschedule") {
		c.Printf("Replacing allocation %s (%s)\n", c.ID(a.ID), a.Name)
		err := sendOrder(ctx, w, "the servers, which stop it", func() error {
			_, err := allocs.Stop(ctx, c.API, a.ID, alloc.StopOptions(c))
			return err
		})
		if err != nil {
			return err
		}

		return w.RetryOutage(ctx, func(ctx context.Context) error { return awaitSuccessor(ctx, w, a.ID) })
	}

	c.Printf("Restarting allocation %s (%s)\n", c.ID(a.ID), a.Name)
	requests := []api.AllocRestartRequest{{AllTasks: c.Bool("all-tasks")}}
	tasks := restartedTasks(c, a)
	if len(c.Strings("task")) > 0 {
		requests = nil
		for _, name := range tasks {
			requests = append(requests, api.AllocRestartRequest{TaskName: name})
		}
	}

	for _, r := range requests {
		err := sendOrder(ctx, w, "the node of allocation "+show.ShortID(a.ID), func() error {
			return allocs.Restart(ctx, c.API, a.ID, r)
		})
		if err != nil {
			return err
		}
	}

	return w.RetryOutage(ctx, func(ctx context.Context) error { return awaitRestarted(ctx, w, a, tasks) })
}

// sendOrder sends a request about an allocation, and says what the answer waits for if it is late.
func sendOrder(ctx context.Context, w *watch.Watch, of string, send func() error) error {
	err := w.AwaitAnswer(ctx, "the answer of "+of, send)
	if err == nil || ctx.Err() != nil {
		return lateError(ctx, w, err, "no answer of "+of)
	}
	return w.WithNextStep(ctx, err)
}

// endedError returns the fault of an allocation that has ended where it was to run, with the next step.
func endedError(w *watch.Watch, a *structs.Allocation, what string) error {
	return structs.Preconditionf("%s; to see why: %s", what,
		structs.CommandLine(a.Namespace, "alloc status", w.Call.ID(a.ID)))
}

// awaitRestarted returns when tasks of an allocation, which ran, have started again.
func awaitRestarted(
	ctx context.Context, w *watch.Watch, before *structs.AllocListStub, tasks []string,
) error {
	missing := "it does not run again yet"
	q := &api.Query{MaxWait: watch.ReadWait}
	for {
		a, meta, err := allocs.Get(ctx, w.API, before.ID, q)
		if err != nil {
			return lateError(ctx, w, err, missing)
		}

		if a.ClientTerminal() {
			return endedError(w, a, fmt.Sprintf("it is %s after the restart", watch.EndText(a.Stub())))
		}

		waits := func(name string) bool {
			old := before.TaskStates[name]
			s := a.TaskStates[name]
			return s == nil || s.State != structs.TaskRunning || old != nil &&
				!s.StartedAt.After(old.StartedAt)
		}

		i := slices.IndexFunc(tasks, waits)
		if i < 0 {
			return nil
		}

		w.WaitFor("job", a.Namespace, a.JobID)
		missing = fmt.Sprintf("task %q does not run again yet", tasks[i])
		if q.MinIndex > 0 { // the node does not report the restart at once
			w.WriteChange(a.ID, "  %s%s", missing, watch.LastEvent(a.Stub()))
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return lateError(ctx, w, err, missing)
		}
	}
}

// awaitSuccessor returns when the allocation that replaces a stopped one runs. At first the stopped one still
// runs, and is to run: an evaluation replaces it.
func awaitSuccessor(ctx context.Context, w *watch.Watch, stopped string) error {
	id := stopped
	q := &api.Query{MaxWait: watch.ReadWait}
	for {
		a, meta, err := allocs.Get(ctx, w.API, id, q)
		if err != nil {
			return lateError(ctx, w, err, "no successor runs yet")
		}

		switch next := a.NextAllocation; {
		case next != "" && id != next && (id == stopped || a.ServerTerminal()):
			id = next
			q = &api.Query{MaxWait: watch.ReadWait}
			continue
		case id == stopped, a.ServerTerminal():
		case a.ClientStatus == structs.AllocRunning:
			return nil
		case a.ClientTerminal():
			what := fmt.Sprintf("its successor %s is %s", w.Call.ID(a.ID), watch.EndText(a.Stub()))
			return endedError(w, a, what)
		}

		w.WaitFor("job", a.Namespace, a.JobID)
		if id != stopped && q.MinIndex > 0 {
			w.WriteChange(id, "  its successor %s is %s%s",
				w.Call.ID(id), a.ClientStatus, watch.LastEvent(a.Stub()))
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return lateError(ctx, w, err, "no successor runs yet")
		}
	}
}

// lateError returns the error of a wait. If its time is over, it explains the wait once more, and the error
// names the missing answer and the next step.
func lateError(ctx context.Context, w *watch.Watch, err error, missing string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		w.ExplainAtLast(ctx)
	}
	return structs.Timeoutf("%s%s", missing, w.Advice())
}
