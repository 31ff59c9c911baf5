package cli

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
	"berth/internal/netfault"
	"berth/structs"
)

// readWait bounds the wait for one thing, after which a watch reads the others.
const readWait = 2 * time.Second

// readPause is the least time between two reads without a change.
const readPause = 100 * time.Millisecond

// outage bounds the wait of a watch for servers that cannot answer. outagePause is the delay before the watch
// starts again.
const (
	outage      = 10 * time.Second
	outagePause = 500 * time.Millisecond
)

// watch follows something until its end. It writes a line for each change.
type watch struct {
	c       *Call
	api     *api.Client
	out     io.Writer // of its lines
	start   time.Time
	last    map[string]string     // the last line of each subject
	plugins map[string]*api.Query // the blocking query of each plugin
	failed  map[string]bool       // allocations that failed, and that nothing replaced at the last read

	waits waiting // of which a long wait writes an explanation

	nextEval string // the evaluation that continues the update of the one followed last, or ""
}

func newWatch(c *Call) *watch {
	return &watch{
		c:       c,
		api:     c.API,
		out:     printable{c.Out},
		start:   now(),
		last:    map[string]string{},
		plugins: map[string]*api.Query{},
		failed:  map[string]bool{},
		waits:   waiting{next: time.Now().Add(whyPause)},
	}
}

// follow writes the outcome of a request. With -detach it writes the ID of the new evaluation, otherwise it
// watches.
func (w *watch) follow(
	ctx context.Context, outcome any, evalID string, watch func(context.Context, *watch) error,
) error {
	if err := w.c.writeOutcome(outcome); err != nil {
		return err
	}
	if w.c.Bool("detach") {
		w.c.Printf("%s\n", evalID)
		return nil
	}
	return w.withTimeout(ctx, func(ctx context.Context) error {
		return w.retryOutage(ctx, func(ctx context.Context) error {
			return watch(ctx, w)
		})
	})
}

// writeLine writes a line with the time since the start.
func (w *watch) writeLine(format string, args ...any) {
	seconds := now().Sub(w.start).Seconds()
	fmt.Fprintf(w.out, "%6.1fs  %s\n", seconds, fmt.Sprintf(format, args...))
}

// writeChange writes a line about a subject unless it equals the last one.
func (w *watch) writeChange(subject, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.last[subject] != text {
		w.last[subject] = text
		w.writeLine("%s", text)
	}
}

// withTimeout runs a watch within the time of -timeout.
func (w *watch) withTimeout(ctx context.Context, follow func(context.Context) error) error {
	limit := w.c.Duration("timeout")
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := follow(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return structs.Timeoutf("interrupted; the operation continues%s", w.advice())
	case errors.Is(limited.Err(), context.DeadlineExceeded) &&
		structs.IsKind(err, structs.KindTimeout):
		w.explainAtLast(ctx)
		return structs.Timeoutf("not done after %s; the operation continues%s", limit, w.advice())
	}
	return w.withNextStep(ctx, err)
}

// retryOutage runs a watch again while the servers are unavailable, because they elect a leader or the agent
// restarts, and says so. An agent that is killed loses the connection of a read that waits for a change. A
// watch changes nothing, so it can start again.
func (w *watch) retryOutage(ctx context.Context, follow func(context.Context) error) error {
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
			return structs.Unavailablef("%w; the operation continues%s", err, w.advice())
		}
		w.writeChange("outage", "  waits for the servers: %s", oneLine(err.Error()))
		select {
		case <-time.After(outagePause):
		case <-ctx.Done():
			return structs.Timeoutf("%w; the operation continues%s", err, w.advice())
		}
	}
}

// awaitChange makes the next read with q block until a change. It pauses if the index has not changed, in
// case the agent does not block. If the wait is long, it explains it.
func (w *watch) awaitChange(ctx context.Context, q *api.Query, meta *structs.QueryMeta) error {
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

// awaitRunning follows the allocations of a job's version until the requested number runs and is healthy.
func (w *watch) awaitRunning(ctx context.Context, job *structs.Job) error {
	w.waitFor("job", job.Namespace, job.ID)
	q := &api.Query{Namespace: job.Namespace, MaxWait: readWait}
	for {
		allocs, meta, err := w.api.JobAllocations(ctx, job.ID, false, q)
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
				if good > 0 || w.nextEval == "" { // else its nodes have an older version, or are down
					w.writeLine("%s", runningText(job, good))
				}
				return nil
			}
			q.MinIndex = 0 // pluginsHealthy has waited for a change
			continue
		}
		err = w.awaitChange(ctx, q, meta)
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
		job.ID, plural(n, "allocation"), state)
}

// reportAllocs writes the changes of allocations and counts those with the requested state.
func (w *watch) reportAllocs(ctx context.Context, job *structs.Job, allocs []*structs.AllocListStub) (
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
func (w *watch) reportAlloc(ctx context.Context, job *structs.Job, a *structs.AllocListStub) (bool, error) {
	subject := fmt.Sprintf("Allocation %s (%s on %s)",
		w.c.id(a.ID), a.Name, nodeLabel(a))
	switch a.ClientStatus {
	case structs.AllocRunning:
		for _, t := range pluginTasks(job, a) {
			if !pluginHealthy(a.TaskStates[t.Name]) {
				w.writeChange(a.ID, "%s runs, its plugin is not healthy yet%s", subject, lastEvent(a))
				return false, nil
			}
		}
		w.writeChange(a.ID, "%s is running", subject)
		return true, nil
	case structs.AllocComplete:
		w.writeChange(a.ID, "%s is complete", subject)
		return job.Finite(), nil
	case structs.AllocFailed, structs.AllocLost:
		w.writeChange(a.ID, "%s is %s", subject, endText(a))
		if a.FollowupEvalID != "" || a.NextAllocation != "" {
			return false, nil // the scheduler replaces it
		}
		return false, structs.Internalf("allocation %s is %s",
			w.c.id(a.ID), endText(a))
	}
	w.writeChange(a.ID, "%s is %s%s", subject, a.ClientStatus, lastEvent(a))
	return false, w.reportClaims(ctx, job, a)
}

// endText describes the end of an allocation and its cause. It shows the newest event and the description,
// but not twice the same text.
func endText(a *structs.AllocListStub) string {
	event := lastEvent(a)
	text := strings.TrimPrefix(event, ": ")
	switch {
	case a.ClientDescription == "":
		return a.ClientStatus + event
	case text == "" || strings.Contains(a.ClientDescription, text):
		return withDescription(a.ClientStatus, oneLine(a.ClientDescription))
	case strings.Contains(text, oneLine(a.ClientDescription)):
		return a.ClientStatus + event
	}
	return withDescription(a.ClientStatus, oneLine(a.ClientDescription)) + event
}

func nodeLabel(a *structs.AllocListStub) string {
	return cmp.Or(a.NodeName, shortID(a.NodeID))
}

// reportClaims writes the volumes that an allocation waits for before its start, and the reasons.
func (w *watch) reportClaims(ctx context.Context, job *structs.Job, a *structs.AllocListStub) error {
	full := &structs.Allocation{
		ID:        a.ID,
		Namespace: a.Namespace,
		Name:      a.Name,
		JobID:     a.JobID,
		TaskGroup: a.TaskGroup,
		Job:       job,
	}
	claims, err := allocClaims(ctx, w.api, full)
	if err != nil {
		return err
	}
	for _, v := range claims {
		switch {
		case v.claim == nil:
		case v.claim.State == structs.ClaimWaiting:
			w.writeChange(a.ID+v.volume, "  waits for volume %s: %s",
				v.volume, oneLine(v.claim.Reason))
		default:
			err := w.reportAttachment(ctx, a, v.volume)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// reportAttachment writes the error that delays the attachment of a granted volume.
func (w *watch) reportAttachment(ctx context.Context, a *structs.AllocListStub, volume string) error {
	v, _, err := w.api.Volume(ctx, volume, &api.Query{Namespace: a.Namespace})
	if err != nil {
		return err
	}
	for _, t := range v.Attachments {
		if t.NodeID == a.NodeID &&
			t.State != structs.AttachmentAttached &&
			t.LastError != nil {
			w.writeChange(a.ID+volume, "  volume %s is %s: %s",
				volume, t.State, problemText(t.LastError))
		}
	}
	return nil
}

// lastEvent returns a colon and the newest event of an allocation's tasks, or "".
func lastEvent(a *structs.AllocListStub) string {
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
	return ": " + cmp.Or(oneLine(eventText(newest)), newest.Type)
}

func eventText(e *structs.TaskEvent) string {
	return cmp.Or(e.DisplayMessage, e.Message)
}
