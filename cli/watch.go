package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/structs"
)

// lookEvery is how long a watch waits for one thing before it looks at the others.
const lookEvery = 2 * time.Second

// lookPause is the least time between two looks that showed nothing new.
const lookPause = 100 * time.Millisecond

// watch follows something until it is done, writing a line whenever there is something new to say.
type watch struct {
	c     *Call
	api   *api.Client
	start time.Time
	said  map[string]string // by subject: what was said last

	plugins map[string]*api.Query // by plugin: how to wait for news of it
}

func newWatch(c *Call) *watch {
	return &watch{c: c, api: c.API(), start: now(), said: map[string]string{}}
}

// follow shows the evaluation that a command began, with -detach; else it says what began and watches it.
func (c *Call) follow(ctx context.Context, evalID, begun string,
	watch func(context.Context, *watch) error) error {
	if c.Bool("detach") {
		c.Printf("%s\n", evalID)
		return nil
	}
	w := newWatch(c)
	w.say("%s", begun)
	return w.until(ctx, func(ctx context.Context) error { return watch(ctx, w) })
}

// say writes a line with the time passed since the beginning.
func (w *watch) say(format string, args ...any) {
	w.c.Printf("%6.1fs  %s\n", now().Sub(w.start).Seconds(), fmt.Sprintf(format, args...))
}

// note says something of a subject unless it was said last.
func (w *watch) note(subject, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.said[subject] != text {
		w.said[subject] = text
		w.say("%s", text)
	}
}

// until runs a watch within the time that -timeout gives it.
func (w *watch) until(ctx context.Context, follow func(context.Context) error) error {
	limit := w.c.Duration("timeout")
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := follow(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return structs.Errorf(structs.KindTimeout, "interrupted; what was asked for goes on")
	case errors.Is(limited.Err(), context.DeadlineExceeded) && structs.IsKind(err, structs.KindTimeout):
		return structs.Errorf(structs.KindTimeout, "not done after %s; what was asked for goes on", limit)
	}
	return err
}

// next makes the following look wait for something newer. Should the agent not wait at all, it is not asked
// more often than a person could read.
func (w *watch) next(ctx context.Context, q *api.Query, meta *structs.QueryMeta) error {
	if meta.Index > q.MinIndex {
		q.MinIndex = meta.Index
		return nil
	}
	timer := time.NewTimer(lookPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return structs.Errorf(structs.KindTimeout, "given up: %w", ctx.Err())
	}
}

// evaluation follows an evaluation to its end, through those that come after it at once.
func (w *watch) evaluation(ctx context.Context, id string) (*structs.Evaluation, error) {
	q := &api.Query{MaxWait: lookEvery}
	for {
		e, meta, err := w.api.Evaluation(ctx, id, q)
		if err != nil {
			return nil, err
		}
		w.note("eval", "Evaluation %s is %s", structs.ShortID(id), described(e.Status, e.StatusDescription))
		if e.Terminal() || e.Status == structs.EvalBlocked {
			return e, nil
		}
		if err := w.next(ctx, q, meta); err != nil {
			return nil, err
		}
	}
}

// placed follows an evaluation and says what it could not place. With wait it does not end there.
func (w *watch) placed(ctx context.Context, evalID string, wait bool) error {
	e, err := w.evaluation(ctx, evalID)
	if err != nil {
		return err
	}
	if e.Status == structs.EvalFailed || e.Status == structs.EvalCancelled {
		return structs.Errorf(structs.KindInternal, "the evaluation ended as %s",
			described(e.Status, e.StatusDescription))
	}
	if len(e.FailedTGAllocs) == 0 {
		return nil
	}
	w.say("Not everything can be placed now:")
	w.c.Printf("%s", refusals(e.FailedTGAllocs, e.QueuedAllocations))
	if e.BlockedEval != "" {
		w.say("Evaluation %s waits and places the rest as soon as there is room", structs.ShortID(e.BlockedEval))
	}
	if wait {
		return nil
	}
	return structs.Errorf(structs.KindPrecondition, "job %q is registered but not placed as a whole", e.JobID)
}

// running follows the allocations of a job's version until as many as it wants run and are healthy.
func (w *watch) running(ctx context.Context, job *structs.Job) error {
	q := &api.Query{Namespace: job.Namespace, MaxWait: lookEvery}
	for {
		allocs, meta, err := w.api.JobAllocations(ctx, job.ID, q)
		if err != nil {
			return err
		}
		allocs = slices.DeleteFunc(allocs, func(a *structs.AllocListStub) bool {
			return a.JobVersion != job.Version || a.DesiredStatus != structs.AllocDesiredRun
		})
		slices.SortFunc(allocs, func(a, b *structs.AllocListStub) int {
			return slices.Compare([]string{a.Name, a.NodeName}, []string{b.Name, b.NodeName})
		})
		good := 0
		for _, a := range allocs {
			ok, err := w.alloc(ctx, job, a)
			if err != nil {
				return err
			}
			if ok {
				good++
			}
		}
		if good == len(allocs) && good >= wanted(job) {
			healthy, err := w.pluginsHealthy(ctx, job, allocs)
			if err != nil {
				return err
			}
			if healthy {
				w.say("%s", summary(job, good))
				return nil
			}
			q.MinIndex = 0 // it has waited for news of the plugins
			continue
		}
		if err := w.next(ctx, q, meta); err != nil {
			return err
		}
	}
}

// wanted is how many allocations a job asks for; one that goes by nodes asks for as many as there are.
func wanted(job *structs.Job) int {
	n := 0
	for _, g := range job.TaskGroups {
		if !job.PerNode() {
			n += g.Count
		}
	}
	return n
}

func summary(job *structs.Job, n int) string {
	state := "running"
	switch {
	case job.Finite():
		state = "running or complete"
	case len(job.Plugins()) > 0:
		state = "running, its plugin healthy"
	}
	if n == 0 {
		return fmt.Sprintf("Job %q is registered; no node is to run it now", job.ID)
	}
	return fmt.Sprintf("Job %q: %s %s", job.ID, plural(n, "allocation"), state)
}

// alloc says what is new of an allocation and whether it is where it is to be.
func (w *watch) alloc(ctx context.Context, job *structs.Job, a *structs.AllocListStub) (bool, error) {
	subject := fmt.Sprintf("Allocation %s (%s on %s)", structs.ShortID(a.ID), a.Name, nodeLabel(a))
	switch a.ClientStatus {
	case structs.AllocRunning:
		for _, t := range pluginTasks(job, a) {
			if !pluginHealthy(a.TaskStates[t.Name]) {
				w.note(a.ID, "%s runs, its plugin is not healthy yet%s", subject, lastEvent(a))
				return false, nil
			}
		}
		w.note(a.ID, "%s is running", subject)
		return true, nil
	case structs.AllocComplete:
		w.note(a.ID, "%s is complete", subject)
		return job.Finite(), nil
	case structs.AllocFailed, structs.AllocLost:
		w.note(a.ID, "%s is %s", subject, ended(a))
		if a.FollowupEvalID != "" || a.NextAllocation != "" {
			return false, nil // it is placed anew
		}
		return false, structs.Errorf(structs.KindInternal, "allocation %s is %s", structs.ShortID(a.ID),
			ended(a))
	}
	w.note(a.ID, "%s is %s%s", subject, a.ClientStatus, lastEvent(a))
	return false, w.claims(ctx, job, a)
}

// ended is how an allocation ended and why. The newest event and the description often say the same.
func ended(a *structs.AllocListStub) string {
	event := lastEvent(a)
	text := strings.TrimPrefix(event, ": ")
	switch {
	case a.ClientDescription == "":
		return a.ClientStatus + event
	case text == "" || strings.Contains(a.ClientDescription, text):
		return described(a.ClientStatus, oneLine(a.ClientDescription))
	case strings.Contains(text, oneLine(a.ClientDescription)):
		return a.ClientStatus + event
	}
	return described(a.ClientStatus, oneLine(a.ClientDescription)) + event
}

func nodeLabel(a *structs.AllocListStub) string {
	if a.NodeName != "" {
		return a.NodeName
	}
	return structs.ShortID(a.NodeID)
}

// claims says which volumes an allocation that has not started waits for, and why.
func (w *watch) claims(ctx context.Context, job *structs.Job, a *structs.AllocListStub) error {
	group := job.Group(a.TaskGroup)
	if group == nil || len(group.Volumes) == 0 {
		return nil
	}
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
			w.note(a.ID+v.volume, "  waits for volume %s: %s", v.volume, oneLine(v.claim.Reason))
		default:
			if err := w.attachment(ctx, a, v.volume); err != nil {
				return err
			}
		}
	}
	return nil
}

// attachment says why a volume that is granted is not attached yet to the node of an allocation.
func (w *watch) attachment(ctx context.Context, a *structs.AllocListStub, volume string) error {
	v, _, err := w.api.Volume(ctx, volume, &api.Query{Namespace: a.Namespace})
	if err != nil {
		return err
	}
	for _, t := range v.Attachments {
		if t.NodeID == a.NodeID && t.State != structs.AttachmentAttached && t.LastError != nil {
			w.note(a.ID+volume, "  volume %s is %s: %s", volume, t.State, problem(t.LastError))
		}
	}
	return nil
}

// lastEvent is the newest event of an allocation's tasks, after a colon.
func lastEvent(a *structs.AllocListStub) string {
	var newest *structs.TaskEvent
	for _, s := range a.TaskStates {
		if s == nil || len(s.Events) == 0 {
			continue
		}
		if e := s.Events[len(s.Events)-1]; newest == nil || e.Time > newest.Time {
			newest = e
		}
	}
	if newest == nil {
		return ""
	}
	if text := oneLine(eventText(newest)); text != "" {
		return ": " + text
	}
	return ": " + newest.Type
}

// jobEnd follows the allocations of a stopped job until all have ended.
func (w *watch) jobEnd(ctx context.Context, jobID string, volumes []string) error {
	q := &api.Query{MaxWait: lookEvery}
	live := map[string]bool{} // by ID: those that were seen before they ended
	for {
		allocs, meta, err := w.api.JobAllocations(ctx, jobID, q)
		if err != nil {
			return err
		}
		left := 0
		for _, a := range allocs {
			if !a.ClientTerminal() {
				left++
				live[a.ID] = true
			} else if live[a.ID] {
				w.note(a.ID, "Allocation %s (%s) is %s", structs.ShortID(a.ID), a.Name, a.ClientStatus)
			}
		}
		if left == 0 {
			if volumes, err = w.held(ctx, jobID, volumes); err != nil {
				return err
			}
		}
		if left+len(volumes) == 0 {
			w.say("Job %q has ended", jobID)
			return nil
		}
		if left > 0 {
			w.note("left", "%s still to end", plural(left, "allocation"))
		}
		if err := w.next(ctx, q, meta); err != nil {
			return err
		}
	}
}

// held returns those of the volumes that ended allocations of a job still hold, and says why they do. The
// others need not be asked about again.
func (w *watch) held(ctx context.Context, jobID string, volumes []string) (still []string, err error) {
	q := &api.Query{Filter: fmt.Sprintf("JobID == %q and State == %q", jobID, structs.ClaimGranted)}
	for _, id := range volumes {
		claims, _, err := w.api.VolumeClaims(ctx, id, q)
		if err != nil && !structs.IsKind(err, structs.KindNotFound) {
			return nil, err
		}
		for _, claim := range claims {
			w.note("held "+id+claim.AllocID, "Allocation %s has ended and still holds volume %s: %s",
				structs.ShortID(claim.AllocID), id, whyHeld(claim))
		}
		if len(claims) > 0 {
			still = append(still, id)
		}
	}
	return still, nil
}

// whyHeld is why a claim of an ended allocation is not released.
func whyHeld(claim *structs.CSIClaim) string {
	switch {
	case claim.Reason != "":
		return oneLine(claim.Reason)
	case claim.ReleaseError != nil:
		why := *claim.ReleaseError
		if why.RetryTime == structs.NeverTry { // its message says what helps; volume retry asks no node
			why.RetryTime = 0
		}
		return problem(&why)
	}
	return "its node has not let go yet"
}

// allocEnd follows one allocation until it has ended.
func (w *watch) allocEnd(ctx context.Context, id string) error {
	q := &api.Query{MaxWait: lookEvery}
	for {
		a, meta, err := w.api.Allocation(ctx, id, q)
		if err != nil {
			return err
		}
		w.note(id, "Allocation %s is %s", structs.ShortID(id), a.ClientStatus)
		if a.ClientTerminal() {
			return nil
		}
		if err := w.next(ctx, q, meta); err != nil {
			return err
		}
	}
}
