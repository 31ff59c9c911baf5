// Package watch is what commands do while they wait: they follow a job, an allocation or a request until its
// end, write each change, say why a wait is long, and name the next step at a fault.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/api/jobs"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/internal/netfault"
	"berth/structs"
)

// ReadWait bounds the wait for one thing, after which a watch reads the others.
const ReadWait = 2 * time.Second

// readPause is the least time between two reads without a change.
const readPause = 100 * time.Millisecond

// outage bounds the wait of a watch for servers that cannot answer. outagePause is the delay before the watch
// starts again.
const (
	outage      = 10 * time.Second
	outagePause = 500 * time.Millisecond
)

// Watch follows something until its end. It writes a line for each change.
type Watch struct {
	Call    *command.Call
	API     *api.Client // of the call
	out     io.Writer   // of its lines
	start   time.Time
	last    map[string]string     // the last line of each subject
	plugins map[string]*api.Query // the blocking query of each plugin
	Failed  map[string]bool       // allocations that failed, and that nothing replaced at the last read

	Waits Waiting // of which a long wait writes an explanation

	NextEval string // the evaluation that continues the update of the one followed last, or ""
}

// New returns the watch of a call, which begins now.
func New(c *command.Call) *Watch {
	return &Watch{
		Call:    c,
		API:     c.API,
		out:     command.Printable{To: c.Out},
		start:   show.Now(),
		last:    map[string]string{},
		plugins: map[string]*api.Query{},
		Failed:  map[string]bool{},
		Waits:   Waiting{Next: time.Now().Add(whyPause)},
	}
}

// Follow writes the outcome of a request. With -detach it writes the ID of the new evaluation, otherwise it
// watches.
func (w *Watch) Follow(
	ctx context.Context, outcome any, evalID string, watch func(context.Context, *Watch) error,
) error {
	if err := w.Call.WriteOutcome(outcome); err != nil {
		return err
	}
	if w.Call.Bool("detach") {
		w.Call.Printf("%s\n", evalID)
		return nil
	}
	return w.WithTimeout(ctx, func(ctx context.Context) error {
		return w.RetryOutage(ctx, func(ctx context.Context) error {
			return watch(ctx, w)
		})
	})
}

// WriteLine writes a line with the time since the start.
func (w *Watch) WriteLine(format string, args ...any) {
	seconds := show.Now().Sub(w.start).Seconds()
	fmt.Fprintf(w.out, "%6.1fs  %s\n", seconds, fmt.Sprintf(format, args...))
}

// WriteChange writes a line about a subject unless it equals the last one.
func (w *Watch) WriteChange(subject, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.last[subject] != text {
		w.last[subject] = text
		w.WriteLine("%s", text)
	}
}

// WithTimeout runs a watch within the time of -timeout.
func (w *Watch) WithTimeout(ctx context.Context, follow func(context.Context) error) error {
	limit := w.Call.Duration("timeout")
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := follow(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return structs.Timeoutf("interrupted; the operation continues%s", w.Advice())
	case errors.Is(limited.Err(), context.DeadlineExceeded) &&
		structs.IsKind(err, structs.KindTimeout):
		w.ExplainAtLast(ctx)
		return structs.Timeoutf("not done after %s; the operation continues%s", limit, w.Advice())
	}
	return w.WithNextStep(ctx, err)
}

// RetryOutage runs a watch again while the servers are unavailable, because they elect a leader or the agent
// restarts, and says so. An agent that is killed loses the connection of a read that waits for a change. A
// watch changes nothing, so it can start again.
func (w *Watch) RetryOutage(ctx context.Context, follow func(context.Context) error) error {
	var since time.Time // the start of the current outage
	for {
		began := time.Now()
		err := follow(ctx)
		if !structs.IsKind(err, structs.KindUnavailable) && !netfault.IsLost(err) {
			return err
		}

		if since.IsZero() || time.Since(began) > outage {
			since = time.Now()
			delete(w.last, "outage")
		}

		if time.Since(since) >= outage {
			return structs.Unavailablef("%w; the operation continues%s", err, w.Advice())
		}

		w.WriteChange("outage", "  waits for the servers: %s", show.OneLine(err.Error()))
		select {
		case <-time.After(outagePause):
		case <-ctx.Done():
			return structs.Timeoutf("%w; the operation continues%s", err, w.Advice())
		}
	}
}

// AwaitChange makes the next read with q block until a change. It pauses if the index has not changed, in
// case the agent does not block. If the wait is long, it explains it.
func (w *Watch) AwaitChange(ctx context.Context, q *api.Query, meta *structs.QueryMeta) error {
	w.explainSometimes(ctx)
	if meta.Index > q.MinIndex {
		q.MinIndex = meta.Index
		return nil
	}
	select {
	case <-time.After(readPause):
		return nil
	case <-ctx.Done():
		return structs.Timeoutf("the watch was cancelled: %w", ctx.Err())
	}
}

// AwaitRunning follows the allocations of a job's version until the requested number runs and is healthy.
func (w *Watch) AwaitRunning(ctx context.Context, job *structs.Job) error {
	w.WaitFor("job", job.Namespace, job.ID)
	q := &api.Query{Namespace: job.Namespace, MaxWait: ReadWait}
	for {
		allocs, meta, err := jobs.AllocationsOf(ctx, w.API, job.ID, false, q)
		if err != nil {
			return err
		}

		allocs = slices.DeleteFunc(allocs, func(a *structs.AllocListStub) bool {
			return a.JobVersion != job.Version || a.DesiredStatus != structs.AllocDesiredRun
		})
		slices.SortFunc(allocs, func(a, b *structs.AllocListStub) int {
			return cmp.Or(
				strings.Compare(a.Name, b.Name),
				strings.Compare(a.NodeName, b.NodeName))
		})

		good, err := w.reportAllocs(ctx, job, allocs)
		if err != nil {
			return err
		}

		if good == len(allocs) && good >= requestedAllocs(job) {
			healthy, err := w.pluginsHealthy(ctx, job, allocs)
			if err != nil {
				return err
			}

			if healthy {
				if good > 0 || w.NextEval == "" { // else its nodes have an older version, or are down
					w.WriteLine("%s", runningText(job, good))
				}
				return nil
			}

			q.MinIndex = 0 // pluginsHealthy has waited for a change
			continue
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return err
		}
	}
}

// requestedAllocs returns the number of allocations in the job specification. It is 0 for a per-node job.
func requestedAllocs(job *structs.Job) int {
	n := 0
	for _, g := range job.TaskGroups {
		if !job.PerNode() {
			n += g.Count
		}
	}
	return n
}

func runningText(job *structs.Job, n int) string {
	state := "running"
	switch {
	case job.Finite():
		state = "running or complete"
	case len(job.Plugins()) > 0:
		state = "running, its plugin healthy"
	}
	if n == 0 {
		return fmt.Sprintf("Job %q is registered; no node has to run it now", job.ID)
	}
	return fmt.Sprintf("Job %q: %s %s",
		job.ID, show.Plural(n, "allocation"), state)
}

// reportAllocs writes the changes of allocations and counts those with the requested state.
func (w *Watch) reportAllocs(ctx context.Context, job *structs.Job, allocs []*structs.AllocListStub) (
	good int, err error,
) {
	for _, a := range allocs {
		ok, err := w.reportAlloc(ctx, job, a)
		if err != nil {
			return 0, err
		}
		if ok {
			good++
		}
	}
	return good, nil
}

// reportAlloc writes the change of an allocation and reports whether the allocation has the requested state.
func (w *Watch) reportAlloc(ctx context.Context, job *structs.Job, a *structs.AllocListStub) (bool, error) {
	subject := fmt.Sprintf("Allocation %s (%s on %s)",
		w.Call.ID(a.ID), a.Name, NodeLabel(a))
	switch a.ClientStatus {
	case structs.AllocRunning:
		for _, t := range pluginTasks(job, a) {
			if !pluginHealthy(a.TaskStates[t.Name]) {
				w.WriteChange(a.ID, "%s runs, its plugin is not healthy yet%s", subject, LastEvent(a))
				return false, nil
			}
		}

		w.WriteChange(a.ID, "%s is running", subject)
		return true, nil

	case structs.AllocComplete:
		w.WriteChange(a.ID, "%s is complete", subject)
		return job.Finite(), nil
	case structs.AllocFailed, structs.AllocLost:
		w.WriteChange(a.ID, "%s is %s", subject, EndText(a))
		if a.FollowupEvalID != "" || a.NextAllocation != "" {
			return false, nil // the scheduler replaces it
		}
		return false, structs.Internalf("allocation %s is %s",
			w.Call.ID(a.ID), EndText(a))
	}

	w.WriteChange(a.ID, "%s is %s%s", subject, a.ClientStatus, LastEvent(a))
	return false, w.reportClaims(ctx, job, a)
}

// EndText describes the end of an allocation and its cause. It shows the newest event and the description,
// but not twice the same text.
func EndText(a *structs.AllocListStub) string {
	event := LastEvent(a)
	text := strings.TrimPrefix(event, ": ")
	switch {
	case a.ClientDescription == "":
		return a.ClientStatus + event
	case text == "" || strings.Contains(a.ClientDescription, text):
		return show.WithDescription(a.ClientStatus, show.OneLine(a.ClientDescription))
	case strings.Contains(text, show.OneLine(a.ClientDescription)):
		return a.ClientStatus + event
	}
	return show.WithDescription(a.ClientStatus, show.OneLine(a.ClientDescription)) + event
}

// NodeLabel returns the name of the node of an allocation, or its short ID.
func NodeLabel(a *structs.AllocListStub) string {
	return cmp.Or(a.NodeName, show.ShortID(a.NodeID))
}

// reportClaims writes the volumes that an allocation waits for before its start, and the reasons.
func (w *Watch) reportClaims(ctx context.Context, job *structs.Job, a *structs.AllocListStub) error {
	full := &structs.Allocation{
		ID:        a.ID,
		Namespace: a.Namespace,
		Name:      a.Name,
		JobID:     a.JobID,
		TaskGroup: a.TaskGroup,
		Job:       job,
	}

	claims, err := AllocClaims(ctx, w.API, full)
	if err != nil {
		return err
	}

	for _, v := range claims {
		switch {
		case v.Claim == nil:
		case v.Claim.State == structs.ClaimWaiting:
			w.WriteChange(a.ID+v.Volume, "  waits for volume %s: %s",
				v.Volume, show.OneLine(v.Claim.Reason))
		default:
			err := w.reportAttachment(ctx, a, v.Volume)
			if err != nil {
				return err
			}
		}
	}

	return nil
}

// reportAttachment writes the error that delays the attachment of a granted volume.
func (w *Watch) reportAttachment(ctx context.Context, a *structs.AllocListStub, volume string) error {
	v, _, err := volumes.Get(ctx, w.API, volume, &api.Query{Namespace: a.Namespace})
	if err != nil {
		return err
	}
	for _, t := range v.Attachments {
		if t.NodeID == a.NodeID &&
			t.State != structs.AttachmentAttached &&
			t.LastError != nil {
			w.WriteChange(a.ID+volume, "  volume %s is %s: %s",
				volume, t.State, show.ProblemText(t.LastError))
		}
	}
	return nil
}

// LastEvent returns a colon and the newest event of an allocation's tasks, or "".
func LastEvent(a *structs.AllocListStub) string {
	var newest *structs.TaskEvent
	for _, s := range a.TaskStates {
		if s == nil || len(s.Events) == 0 {
			continue
		}
		e := s.Events[len(s.Events)-1]
		if newest == nil || e.Time > newest.Time {
			newest = e
		}
	}
	if newest == nil {
		return ""
	}
	return ": " + cmp.Or(show.OneLine(EventText(newest)), newest.Type)
}

// EventText returns the text of an event for users.
func EventText(e *structs.TaskEvent) string {
	return cmp.Or(e.DisplayMessage, e.Message)
}
