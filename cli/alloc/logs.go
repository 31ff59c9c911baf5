package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// tailFlags are the options of a command that shows the end of a file or log.
var tailFlags = []command.Flag{
	{Name: "f", Usage: "Follow the output until interrupted"},
	{Name: "tail", Usage: "Begin near the end: with the last 10 lines, or with -n or -c"},
	{Name: "n", Kind: command.Number, Value: "lines", Usage: "Begin this many lines before the end"},
	{Name: "c", Kind: command.Number, Value: "bytes", Usage: "Begin this many bytes before the end"},
	{Name: "job", Usage: "The first argument is a job: choose its newest running allocation"},
	{Name: "verbose", Usage: "With -job: name the allocation on the standard error"},
}

var logsFlags = slices.Concat(tailFlags, []command.Flag{
	{Name: "task", Kind: command.String, Value: "name", Usage: "The task, in place of the second argument"},
	{Name: "stdout", Usage: "Show the standard output. Default: true without -stderr"},
	{Name: "stderr", Usage: "Show the standard error. Default: true with -f and without -stdout"},
})

const helpLogs = `Without a task the command shows the only task of the allocation, or the
leader. With -f it follows the standard output and the standard error of the
task until it ends, and writes them to its own standard output and standard
error. A log consists of all its files that the node still keeps.`

// defaultTail is the number of lines of -tail alone.
const defaultTail = 10

// place is the part of a file or log that a user asks for.
type place struct {
	fromEnd       bool
	offset, lines int64
}

// placeOf reads the options -tail, -n and -c.
func placeOf(c *command.Call) (place, error) {
	p := place{fromEnd: c.Bool("tail") || c.Given("n") || c.Given("c")}
	switch {
	case c.Given("n") && c.Given("c"):
		return p, command.BadUsage("-n and -c exclude each other")
	case c.Given("c"):
		p.offset = c.Number("c")
	case c.Given("n"):
		p.lines = c.Number("n")
	case p.fromEnd:
		p.lines = defaultTail
	}

	if p.lines > structs.MaxTailLines {
		return p, command.BadUsage("-n is %d, expected at most %d", p.lines, structs.MaxTailLines)
	}

	return p, nil
}

// allocLogs shows the output of a task. It waits for the node, and with -f until it is interrupted.
func allocLogs(ctx context.Context, c *command.Call) error {
	p, err := placeOf(c)
	if err != nil {
		return err
	}

	if c.String("task") != "" && c.Arg(1) != "" {
		return command.BadUsage("-task and the second argument both name the task")
	}

	task := cmp.Or(c.String("task"), c.Arg(1))
	id, err := chooseAlloc(ctx, c, task)
	if err != nil {
		return err
	}

	if task == "" {
		task, err = defaultTask(ctx, c, id)
		if err != nil {
			return err
		}
	}

	o := allocs.LogOptions{
		Task:    task,
		Follow:  c.Bool("f"),
		FromEnd: p.fromEnd,
		Offset:  p.offset,
		Lines:   p.lines,
	}

	stdout := c.Bool("stdout") || !c.Bool("stderr")
	stderr := c.Bool("stderr") || o.Follow && !c.Bool("stdout")
	return logView{id, o, stdout, stderr}.run(ctx, c)
}

// logView is the outputs of a task that a user asks for.
type logView struct {
	alloc          string
	options        allocs.LogOptions
	stdout, stderr bool
}

// run shows the outputs: one after the other, or beside each other if they are followed.
func (v logView) run(ctx context.Context, c *command.Call) error {
	outs := v.stream(c, false)
	errs := v.stream(c, true)
	switch {
	case !v.stderr:
		return copyStream(ctx, c, c.Out, outs)
	case !v.stdout: // the only output that is asked for
		return copyStream(ctx, c, c.Out, errs)
	case v.options.Follow:
		return followBoth(ctx, c, outs, errs)
	}

	err := copyStream(ctx, c, c.Out, outs)
	if err != nil {
		return err
	}

	return copyStream(ctx, c, unescaped(c.Err), errs)
}

// stream returns one of the outputs.
func (v logView) stream(c *command.Call, stderr bool) allocStream {
	o := v.options
	o.Stderr = stderr
	return allocStream{
		alloc:  v.alloc,
		follow: o.Follow,
		open:   func(ctx context.Context) (io.ReadCloser, error) { return allocs.Logs(ctx, c.API, v.alloc, o) },
	}
}

// allocStream is a file or log of an allocation.
type allocStream struct {
	alloc  string
	follow bool
	open   func(context.Context) (io.ReadCloser, error)
}

// followBoth opens both outputs before it shows the first, so that no line about a wait is within them.
func followBoth(ctx context.Context, c *command.Call, outs, errs allocStream) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fromOut, err := openStream(inner, c, outs)
	if err != nil {
		return outs.fault(ctx, err)
	}
	defer command.CloseRead(fromOut)

	fromErr, err := openStream(inner, c, errs)
	if err != nil {
		return errs.fault(ctx, err)
	}
	defer command.CloseRead(fromErr)

	var both sync.WaitGroup
	show := func(w io.Writer, from io.Reader) {
		err := writeStream(w, from)
		if err != nil {
			cancel(err) // the first fault counts: it ends the other stream
		}
	}
	both.Go(func() { show(c.Out, fromOut) })
	both.Go(func() { show(unescaped(c.Err), fromErr) })
	both.Wait()
	return outs.fault(ctx, context.Cause(inner))
}

// copyStream writes a file or log as it is.
func copyStream(ctx context.Context, c *command.Call, w io.Writer, s allocStream) error {
	from, err := openStream(ctx, c, s)
	if err == nil {
		defer command.CloseRead(from)
		err = writeStream(w, from)
	}
	return s.fault(ctx, err)
}

// openStream waits for the first answer of the node.
func openStream(ctx context.Context, c *command.Call, s allocStream) (from io.ReadCloser, err error) {
	err = watch.New(c).Await(ctx, NodeOf(s.alloc), watch.SeeAlloc(c, s.alloc), func() (err error) {
		from, err = s.open(ctx)
		return err
	})
	return from, err
}

func writeStream(w io.Writer, from io.Reader) error {
	_, err := io.Copy(w, from)
	switch {
	case structs.IsKind(err, structs.KindDenied):
		return fmt.Errorf("the output ends here: %w", err)
	case err != nil:
		return structs.Unavailablef("the output is incomplete: %w", err)
	}
	return nil
}

// fault returns the error of a stream. A user ends one that is followed by an interrupt.
func (s allocStream) fault(ctx context.Context, err error) error {
	if s.follow && errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

// chooseAlloc returns the ID of the allocation that the first argument names. With -job it is the newest
// running allocation of a job, or else the newest, among those with the task, if one is named.
func chooseAlloc(ctx context.Context, c *command.Call, task string) (string, error) {
	if !c.Bool("job") {
		return c.Resolve(ctx, "alloc", c.Arg(0))
	}

	job, err := c.Resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return "", err
	}

	all, _, err := jobs.AllocationsOf(ctx, c.API, job, false, nil)
	if err != nil {
		return "", err
	}

	all = slices.DeleteFunc(all, func(a *structs.AllocListStub) bool {
		return task != "" && a.TaskStates[task] == nil
	})

	if len(all) == 0 && task != "" {
		return "", structs.NotFoundf("job %q has no allocation with the task %q", job, task)
	}

	if len(all) == 0 {
		return "", structs.NotFoundf("job %q has no allocations", job)
	}

	slices.SortFunc(all, func(a, b *structs.AllocListStub) int {
		return cmp.Or(runningFirst(a, b), NewestFirst(a, b))
	})

	if c.Bool("verbose") {
		fmt.Fprintf(c.Err, "Allocation %s on node %s (%s)\n", all[0].ID, all[0].NodeName, all[0].NodeID)
	}

	return all[0].ID, nil
}

// runningFirst orders running allocations before the others.
func runningFirst(a, b *structs.AllocListStub) int {
	rank := func(a *structs.AllocListStub) int {
		if a.ClientStatus == structs.AllocRunning {
			return 0
		}
		return 1
	}
	return rank(a) - rank(b)
}

// defaultTask returns the only task of an allocation, or its leader.
func defaultTask(ctx context.Context, c *command.Call, allocID string) (string, error) {
	alloc, _, err := allocs.Get(ctx, c.API, allocID, nil)
	if err != nil {
		return "", err
	}

	var names []string
	if group := watch.GroupOf(alloc); group != nil {
		for _, t := range group.Tasks {
			if t.Leader {
				return t.Name, nil
			}

			names = append(names, t.Name)
		}
	} else {
		names = slices.Sorted(maps.Keys(alloc.TaskStates))
	}

	if len(names) != 1 {
		return "", command.BadUsage("the allocation has %s and no leader; name one of: %s",
			show.Plural(len(names), "task"), strings.Join(names, ", "))
	}

	return names[0], nil
}
