package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// scheduleLoop works off the pending evaluations, the most important first.
type scheduleLoop struct {
	Deps
	plan func(tx *state.Read, eval *structs.Evaluation, now time.Time) (*structs.Plan, error) // scheduler.Process
}

// tries are the evaluations that did not go through at once, with how often and until when they rest.
type tries map[string]try

type try struct {
	failures int
	refused  int // plans that no longer fitted when they were applied
	rest     time.Time
}

func (s scheduleLoop) run(ctx context.Context) {
	past := tries{}
	for ctx.Err() == nil {
		tx := s.Store.Watching()
		queue, wake := nextEvals(slices.Collect(state.EvalsByStatus(tx, structs.EvalPending)), past, s.Now())
		past.forget(tx)
		if len(queue) == 0 {
			s.wait(ctx, tx, wake)
			continue
		}
		for _, id := range queue[:min(len(queue), s.Config.SchedulerBatch)] {
			if ctx.Err() == nil {
				s.process(ctx, id, past)
			}
		}
	}
}

// nextEvals orders the evaluations that are due, by priority and then by age, and says when the next of the
// others comes due.
func nextEvals(pending []*structs.Evaluation, past tries, now time.Time) (queue []string, wake time.Time) {
	slices.SortStableFunc(pending, func(a, b *structs.Evaluation) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.CreateIndex, b.CreateIndex))
	})
	for _, e := range pending {
		due := past[e.ID].rest
		if e.WaitUntil > 0 && due.Before(time.Unix(0, e.WaitUntil)) {
			due = time.Unix(0, e.WaitUntil)
		}
		switch {
		case !due.After(now):
			queue = append(queue, e.ID)
		case wake.IsZero() || due.Before(wake):
			wake = due
		}
	}
	return queue, wake
}

func (s scheduleLoop) wait(ctx context.Context, tx *state.Read, wake time.Time) {
	if !wake.IsZero() {
		limited, cancel := context.WithTimeout(ctx, max(time.Millisecond, wake.Sub(s.Now())))
		defer cancel()
		ctx = limited
	}
	_ = s.Store.Wait(ctx, tx) // a change, the time or the end: each is a reason to look again
}

// process plans one evaluation on the newest state and applies the plan.
func (s scheduleLoop) process(ctx context.Context, id string, past tries) {
	defer metrics.MeasureSince([]string{"control", "schedule"}, time.Now())
	tx := s.Store.Read()
	eval := state.Eval(tx, id)
	if eval == nil || eval.Status != structs.EvalPending {
		return // done along with another, or woken and blocked again
	}
	plan, err := s.decide(tx, eval)
	if err == nil {
		plan.Now = s.Now().UnixNano()
		_, err = fsm.Propose(ctx, s.Proposer, fsm.PlanApply, plan)
	}
	switch after := state.Eval(s.Store.Read(), id); {
	case ctx.Err() != nil:
	case structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout):
		past.refuse(id, s.Now(), s.Config.Retry) // the log's fault, not the evaluation's
	case err != nil:
		s.failed(ctx, eval, err, past)
	case after != nil && after.Status == structs.EvalPending:
		past.refuse(id, s.Now(), s.Config.Retry)
	default:
		delete(past, id)
	}
}

// decide keeps one evaluation from taking the leader down again and again.
func (s scheduleLoop) decide(tx *state.Read, eval *structs.Evaluation) (p *structs.Plan, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			p, err = nil, structs.Errorf(structs.KindInternal, "the scheduler panicked: %v", fault)
		}
	}()
	if p, err = s.plan(tx, eval, s.Now()); err == nil && p == nil {
		err = structs.Errorf(structs.KindInternal, "the scheduler made no plan")
	}
	return p, err
}

// failed rests an evaluation, or gives it up and says why.
func (s scheduleLoop) failed(ctx context.Context, eval *structs.Evaluation, cause error, past tries) {
	t := past[eval.ID]
	t.failures++
	t.rest = s.Now().Add(s.Config.Retry.After(t.failures))
	past[eval.ID] = t
	s.Logger.Error("an evaluation failed", "eval", eval.ID, "job", eval.JobID, "namespace", eval.Namespace,
		"failures", t.failures, "error", cause)
	if t.failures < s.Config.EvalAttempts {
		return
	}
	e := eval.Copy()
	e.Status = structs.EvalFailed
	e.StatusDescription = fmt.Sprintf("given up after %d failures, the last: %v", t.failures, cause)
	update := &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}, WriteOptions: s.stamp(e.Namespace)}
	if _, err := fsm.Propose(ctx, s.Proposer, fsm.EvalUpdate, update); err != nil && ctx.Err() == nil {
		s.Logger.Error("an evaluation could not be given up, trying on", "eval", eval.ID, "error", err)
	}
}

// refuse rests an evaluation whose plan did not fit any more: shortly, for the state is newer now; longer if
// it goes on.
func (t tries) refuse(id string, now time.Time, retry Backoff) {
	last := t[id]
	last.refused++
	last.rest = now.Add(retry.After(last.refused - 1))
	t[id] = last
}

// forget drops evaluations that are pending no more.
func (t tries) forget(tx *state.Read) {
	for id := range t {
		if e := state.Eval(tx, id); e == nil || e.Status != structs.EvalPending {
			delete(t, id)
		}
	}
}
