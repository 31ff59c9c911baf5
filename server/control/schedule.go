package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
	"berth/structs"
)

// scheduleLoop works off the pending evaluations, the most important first.
type scheduleLoop struct {
	Deps
	plan func(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) (*structs.Plan, error) // scheduler.Process
}

// tries are the evaluations that did not go through at once, with how often and until when they rest.
type tries map[string]try

type try struct {
	failures int
	refused  int // plans that no longer fitted when they were applied
	rest     time.Time
	version  uint64 // of the row that is to rest; 0 of any
}

func (s scheduleLoop) run(ctx context.Context) {
	past, all := tries{}, newFlights()
	defer all.crew.Wait()
	for ctx.Err() == nil {
		s.land(ctx, past, all)
		tx := s.Store.ReadWatched()
		queue, wake := nextEvals(tx, past, s.Now(), s.Config.SchedulerBatch+len(all.aloft))
		past.forget(tx)
		more := len(queue) < s.Config.SchedulerBatch && state.WakesDue(tx)
		if more {
			s.wakeMore(ctx)
		}
		if !s.work(ctx, queue, past, all) && !more {
			s.wait(ctx, tx, wake, all)
		}
	}
}

// work begins with those of the queue that can be begun, and reports whether there were any.
func (s scheduleLoop) work(ctx context.Context, queue []string, past tries, all *flights) (begun bool) {
	for _, id := range queue {
		if ctx.Err() != nil {
			return true
		}
		if _, aloft := all.aloft[id]; !aloft && s.begin(ctx, id, past, all) {
			begun = true
		}
		if len(all.aloft) == mostInFlight {
			return begun
		}
	}
	return begun
}

// wakeMore lets more of those go on that wait for a key that was woken.
func (s scheduleLoop) wakeMore(ctx context.Context) {
	update := &structs.EvalUpdateRequest{Wake: s.Config.SchedulerBatch, WriteOptions: s.stamp("")}
	if _, err := fsm.Propose(ctx, s.Proposer, fsm.EvalUpdate, update); err != nil && ctx.Err() == nil {
		s.Logger.Warn("evaluations could not be woken, trying again", "error", err)
		select {
		case <-time.After(s.Config.Retry.Min):
		case <-ctx.Done():
		}
	}
}

// nextEvals are the first of the evaluations that are due, by priority and then by age, and when the next of the
// others comes due. It looks at as many as it names, and at those that rest.
func nextEvals(tx *state.ReadTx, past tries, now time.Time, most int) (queue []string, wake time.Time) {
	var due []*structs.Evaluation
	later := func(at time.Time) {
		if wake.IsZero() || at.Before(wake) {
			wake = at
		}
	}
	rests := func(e *structs.Evaluation) bool {
		rest := past.rest(e)
		if rest.After(now) {
			later(rest)
		}
		return rest.After(now)
	}
	for e := range state.LaterEvals(tx) {
		if at := time.Unix(0, e.WaitUntil); at.After(now) {
			later(at)
			break
		}
		if !rests(e) {
			due = append(due, e)
		}
		if len(due) == most {
			break
		}
	}
	timed := len(due)
	for e := range state.ReadyEvals(tx) {
		if !rests(e) {
			due = append(due, e)
		}
		if len(due) == timed+most {
			break
		}
	}
	slices.SortStableFunc(due, func(a, b *structs.Evaluation) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.CreateIndex, b.CreateIndex))
	})
	for _, e := range due[:min(len(due), most)] {
		queue = append(queue, e.ID)
	}
	return queue, wake
}

// settle decides what becomes of an evaluation after its plan was carried out, or was not.
func (s scheduleLoop) settle(ctx context.Context, f flight, past tries) {
	id := f.eval.ID
	switch after := state.Eval(s.Store.Read(), id); {
	case ctx.Err() != nil:
	case structs.IsKind(f.err, structs.KindUnavailable) || structs.IsKind(f.err, structs.KindTimeout):
		past.refuse(id, 0, s.Now(), s.Config.Retry) // the log's fault, not the evaluation's
	case f.err != nil:
		s.failed(ctx, f.eval, f.err, past)
	case after == nil, after.Status != structs.EvalPending,
		after.Again == structs.EvalMore, after.Again == structs.EvalWoken:
		delete(past, id) // done; or it goes on, or was woken since, which is no reason to rest
	case after.Again == structs.EvalChanged:
		past[id] = try{rest: s.Now().Add(s.Now().Sub(f.began))} // as long as it took: more changes may be about to come
	default:
		past.refuse(id, after.ModifyIndex, s.Now(), s.Config.Retry)
	}
}

// decide keeps one evaluation from taking the leader down again and again.
func (s scheduleLoop) decide(tx *state.ReadTx, eval *structs.Evaluation) (p *structs.Plan, err error) {
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
	t.rest, t.version = s.Now().Add(s.Config.Retry.Delay(t.failures)), 0
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
// it goes on. When what it looks at changes it need not rest on.
func (t tries) refuse(id string, version uint64, now time.Time, retry backoff.Backoff) {
	last := t[id]
	last.refused++
	last.rest, last.version = now.Add(retry.Delay(last.refused-1)), version
	t[id] = last
}

// rest is until when an evaluation rests.
func (t tries) rest(e *structs.Evaluation) time.Time {
	last := t[e.ID]
	if last.version != 0 && last.version != e.ModifyIndex {
		return time.Time{}
	}
	return last.rest
}

// forget drops evaluations that are pending no more.
func (t tries) forget(tx *state.ReadTx) {
	for id := range t {
		if e := state.Eval(tx, id); e == nil || e.Status != structs.EvalPending {
			delete(t, id)
		}
	}
}
