package job

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"berth/api"
	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

var jobDispatchCommand = command.Command{
	Name:     "dispatch",
	Args:     "<job> [file]",
	Synopsis: "Start a child of a parameterized job",
	Help: `
Starts a child with values for the parameters of the job. The payload is the
content of the file; "-" is the standard input. The parameterized block of the
job decides whether a payload is needed or allowed, and which keys -meta may
have.`,
	Acts: true,
	Flags: append([]command.Flag{
		{Name: "meta", Kind: command.Strings, Value: "key=value", Usage: "Set a parameter; may be repeated"},
		{
			Name:  "id-prefix-template",
			Kind:  command.String,
			Value: "text",
			Usage: "Make the text a part of the ID of the child",
		},
		{
			Name:  "idempotency-token",
			Kind:  command.String,
			Value: "text",
			Usage: "Do not start a second child with the same token",
		},
		{
			Name:  "priority",
			Kind:  command.Number,
			Value: "number",
			Usage: "The priority of the child. Default: the job's",
		},
	}, command.DetachFlags...),
	Run: jobDispatch,
	Examples: "berth job dispatch -meta who=me encode video.mp4\n" +
		"echo data | berth job dispatch -detach encode -",
}

// jobDispatch starts a child of a job and waits for its placement, unless -detach is given. It does not wait
// for the end of the child. A dispatch with a token that has started one before is no fault.
func jobDispatch(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	body, err := dispatchBody(c)
	if err != nil {
		return err
	}

	answer, err := jobs.Dispatch(ctx, c.API, id, body)
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}

	return watch.New(c).Follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch.Watch) error {
		w.WriteChange("request", "Job %q is dispatched", answer.DispatchedJobID)
		if answer.EvalID == "" {
			w.WriteChange("token", "An earlier dispatch with this token has started it")
			writeChildStep(w, c.Namespace(), answer.DispatchedJobID)
			return nil
		}
		return awaitChild(ctx, w, answer.EvalID, answer.DispatchedJobID)
	})
}

var jobPeriodicCommand = command.Command{
	Name:     "periodic",
	Synopsis: "Launch periodic jobs",
	Sub: []command.Command{{
		Name:     "force",
		Args:     "<job>",
		Synopsis: "Launch a child of a periodic job now",
		Help: `
Launches a child in addition to the schedule, even if the job prohibits
overlaps.`,
		Acts:     true,
		Flags:    command.DetachFlags,
		Run:      jobPeriodicForce,
		Examples: "berth job periodic force backup",
	}},
}

// dispatchBody makes the request of a dispatch. The payload is a file, or the standard input for "-".
func dispatchBody(c *command.Call) (jobs.DispatchBody, error) {
	body := jobs.DispatchBody{
		IdPrefixTemplate: c.String("id-prefix-template"),
		IdempotencyToken: c.String("idempotency-token"),
		Priority:         int(c.Number("priority")),
	}

	for _, pair := range c.Strings("meta") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return body, command.BadUsage("the option -meta is %q, expected key=value", pair)
		}

		if body.Meta == nil {
			body.Meta = map[string]string{}
		}

		body.Meta[key] = value
	}

	if c.Arg(1) != "" {
		payload, err := c.ReadFile(c.Arg(1))
		if err != nil {
			return body, err
		}

		body.Payload = payload
	}

	return body, nil
}

// jobPeriodicForce starts a child of a periodic job now, and waits for its placement.
func jobPeriodicForce(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	answer, err := jobs.ForcePeriodic(ctx, c.API, id)
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}
	return watch.New(c).Follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch.Watch) error {
		w.WriteChange("request", "Job %q is launched", id)
		return awaitChild(ctx, w, answer.EvalID, "")
	})
}

// awaitChild follows the placement of a child, and names the command that shows it. Without an ID the child
// is the job of the evaluation.
func awaitChild(ctx context.Context, w *watch.Watch, evalID, child string) error {
	err := w.AwaitPlacement(ctx, evalID, false)
	if err == nil {
		writeChildStep(w, w.Waits.Namespace, cmp.Or(child, w.Waits.ID))
	}
	return err
}

func writeChildStep(w *watch.Watch, namespace, child string) {
	w.WriteLine("To see how it goes: %s", structs.CommandLine(namespace, "job status", child))
}

// schedulePairs describes the schedule and the parameters of a job.
func schedulePairs(j *structs.Job) (parent, periodic, parameterized string) {
	if p := j.Periodic; p != nil {
		specs := append([]string{}, p.Specs...)
		if p.Spec != "" {
			specs = append(specs, p.Spec)
		}

		periodic = fmt.Sprintf("%s (%s)", strings.Join(specs, "; "), p.TimeZone)
		next, err := p.Next(show.Now())
		switch {
		case !j.IsPeriodic():
			periodic += ", off"
		case err == nil && !next.IsZero():
			periodic += ", next at " + next.UTC().Format(time.RFC3339)
		}
	}

	if p := j.ParameterizedJob; p != nil && !j.Dispatched {
		parameterized = "payload " + p.Payload
		if len(p.MetaRequired) > 0 {
			parameterized += ", requires " + strings.Join(p.MetaRequired, ", ")
		}

		if len(p.MetaOptional) > 0 {
			parameterized += ", allows " + strings.Join(p.MetaOptional, ", ")
		}
	}

	return j.ParentID, periodic, parameterized
}

// printChildren writes the children of a job that starts others.
func printChildren(ctx context.Context, c *command.Call, j *structs.Job) error {
	all, _, err := jobs.List(ctx, c.API, &api.Query{Prefix: j.ID + "/"})
	if err != nil {
		return err
	}

	var rows command.Grid
	for _, child := range all {
		if child.ParentID == j.ID {
			rows.AddRow(child.ID, orStopped(child.Status, child.Stop), show.Age(child.SubmitTime))
		}
	}

	c.Section("Children", "ID|Status|Submitted", rows)
	return nil
}
