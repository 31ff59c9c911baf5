package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
	"berth/state/unblock"
	"berth/structs"
)

// scheduleLoop processes the pending evaluations, the most important first.
type scheduleLoop struct {
	Deps
	// plan is scheduler.Process.
	plan func(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) (*structs.Plan, error)
}

// scheduling is the loop while it runs.
type scheduling struct {
	scheduleLoop
	*inFlight
	backoffs backoffs
}

// backoffs are the evaluations whose last plan did not succeed.
type backoffs map[string]evalBackoff

// evalBackoff is the time until which an evaluation is not processed.
type evalBackoff struct {
	failures int
	rejected int // plans that no longer fitted when they were applied
	until    time.Time
	version  uint64 // of the row; a row of another version is not delayed. 0: of any version
}

func (s scheduleLoop) run(ctx context.Context) {
	running := &scheduling{
		scheduleLoop: s,
		inFlight:     &inFlight{plans: map[string]proposedPlan{}, done: make(chan proposedPlan, mostInFlight)},
		backoffs:     backoffs{},
	}
	defer metrics.SetGauge([]string{"control", "plans_in_flight"}, 0)
	defer running.wg.Wait()

	for ctx.Err() == nil {
		running.settleDone(ctx)
		tx := s.Store.ReadWatched()
		most := s.Config.SchedulerBatch + len(running.plans)
		queue, next := nextEvals(tx, running.backoffs, instant{time.Now(), s.Clock.Now()}, most)
		running.backoffs.forget(tx)
		more := len(queue) < s.Config.SchedulerBatch &&
			unblock.Due(tx)
		if more {
			s.unblockMore(ctx)
		}

		if !running.startPlans(ctx, queue) && !more {
			running.awaitChange(ctx, tx, next)
		}
	}
}

// startPlans begins the evaluations of the queue that can begin. It reports whether there were any.
func (s *scheduling) startPlans(ctx context.Context, queue []string) (begun bool) {
	for _, id := range queue {
		if ctx.Err() != nil {
			return true
		}

		_, proposed := s.plans[id]
		if !proposed && s.startPlan(ctx, id) {
			begun = true
		}

		if len(s.plans) == mostInFlight {
			return begun
		}
	}

	return begun
}

// unblockMore unblocks more of the evaluations whose key was unblocked.
func (s scheduleLoop) unblockMore(ctx context.Context) {
	update := &structs.EvalUpdateRequest{
		Wake:         s.Config.SchedulerBatch,
		WriteOptions: s.stamp(""),
	}
	err := propose(ctx, s.Deps, fsm.EvalUpdate, update)
	if err == nil || ctx.Err() != nil {
		return
	}
	s.Logger.Warn("failed to unblock evaluations, retrying", "error", err)
	backoff.Sleep(ctx, s.Config.Retry.Min)
}

// instant is one time by two clocks: the pauses of this process count by the first, and the times of
// evaluations by the second.
type instant struct{ wall, cluster time.Time }

// nextEvals returns the IDs of at most `most` due evaluations, sorted by priority and age. next is the time
// at which the next one is due. nextEvals reads the evaluations that it returns and the delayed ones. There
// are none while the configuration of the scheduler pauses evaluations.
func nextEvals(
	tx *state.ReadTx,
	past backoffs,
	at instant,
	most int,
) (queue []string, next time.Time) {
	if state.SchedulerConfig(tx).PauseEvalBroker {
		return nil, time.Time{}
	}
	now := at.wall
	var due []*structs.Evaluation
	checkAgainAt := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	isDue := func(e *structs.Evaluation) bool {
		until := past.until(e)
		if until.After(now) {
			checkAgainAt(until)
			return false
		}
		return true
	}
	for e := range state.LaterEvals(tx) {
		// They are in the order of their times, so the first one that is not due ends the search.
		until := now.Add(time.Unix(0, e.WaitUntil).Sub(at.cluster))
		if until.After(now) {
			checkAgainAt(until)
			break
		}
		if isDue(e) {
			due = append(due, e)
		}
		if len(due) == most {
			break
		}
	}

	// The others get the whole bound, too: the priority decides between both kinds.
	timed := len(due)
	for e := range state.ReadyEvals(tx) {
		if isDue(e) {
			due = append(due, e)
		}
		if len(due) == timed+most {
			break
		}
	}
	slices.SortStableFunc(due, func(a, b *structs.Evaluation) int {
		return cmp.Or(
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(a.CreateIndex, b.CreateIndex),
		)
	})
	for _, e := range due[:min(len(due), most)] {
		queue = append(queue, e.ID)
	}
	return queue, next
}

// settlePlan decides when an evaluation is processed again after its plan has its result.
func (s *scheduling) settlePlan(ctx context.Context, p proposedPlan) {
	id := p.eval.ID
	after := state.Eval(s.Store.Read(), id)
	switch {
	case ctx.Err() != nil:
	case structs.IsKind(p.err, structs.KindUnavailable),
		structs.IsKind(p.err, structs.KindTimeout):
		s.backoffs.delayRejected(id, 0, time.Now(), s.Config.Retry) // the log has failed, not the evaluation
	case p.err != nil:
		s.recordFailure(ctx, p.eval, p.err)
	case after == nil, after.Status != structs.EvalPending,
		after.Again == structs.EvalMore, after.Again == structs.EvalWoken:
		delete(s.backoffs, id) // done, or continued, or unblocked since
	case after.Again == structs.EvalChanged:
		took := time.Since(p.began)
		s.backoffs[id] = evalBackoff{until: time.Now().Add(took)} // more changes may be about to come
	default:
		s.backoffs.delayRejected(id, after.ModifyIndex, time.Now(), s.Config.Retry)
	}
}

// planEval makes the plan of an evaluation. A panic of the scheduler is an error, so that one evaluation
// does not end every leader.
func (s scheduleLoop) planEval(
	tx *state.ReadTx,
	eval *structs.Evaluation,
) (p *structs.Plan, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			p = nil
			err = structs.Internalf("the scheduler panicked: %v", fault)
		}
	}()
	now := s.Clock.Now()
	p, err = s.plan(tx, eval, now)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, structs.Internalf("the scheduler made no plan")
	}

	p.Now = now.UnixNano() // the times of its later evaluations count from here
	return p, nil
}

// evalAttempts is the number of failures after which an evaluation has failed.
const evalAttempts = 5

// recordFailure delays an evaluation. After too many failures it marks the evaluation failed.
func (s *scheduling) recordFailure(ctx context.Context, eval *structs.Evaluation, cause error) {
	b := s.backoffs[eval.ID]
	b.failures++
	b.until = time.Now().Add(s.Config.Retry.Delay(b.failures))
	b.version = 0
	s.backoffs[eval.ID] = b
	s.Logger.Error("evaluation failed",
		"eval_id", eval.ID,
		"job_id", eval.JobID,
		"namespace", eval.Namespace,
		"failures", b.failures,
		"error", cause)

	if b.failures < evalAttempts {
		return
	}

	e := eval.Copy()
	e.Status = structs.EvalFailed
	e.StatusDescription = fmt.Sprintf("failed after %d attempts, the last: %v", b.failures, cause)
	update := &structs.EvalUpdateRequest{
		Evals:        []*structs.Evaluation{e},
		WriteOptions: s.stamp(e.Namespace),
	}

	err := propose(ctx, s.Deps, fsm.EvalUpdate, update)
	if err != nil && ctx.Err() == nil {
		s.Logger.Error("failed to record a failed evaluation, retrying",
			"eval_id", eval.ID,
			"error", err)
	}
}

// delayRejected delays an evaluation whose plan no longer fitted: shortly at first, because the state is
// newer now, and longer each time.
func (b backoffs) delayRejected(
	id string,
	version uint64,
	now time.Time,
	retry backoff.Backoff,
) {
	last := b[id]
	delay := retry.Delay(last.rejected)
	last.rejected++
	last.until = now.Add(delay)
	last.version = version
	b[id] = last
}

// until returns the time until which an evaluation is delayed.
func (b backoffs) until(e *structs.Evaluation) time.Time {
	last := b[e.ID]
	if last.version != 0 && last.version != e.ModifyIndex {
		return time.Time{}
	}
	return last.until
}

// forget drops evaluations that are no longer pending.
func (b backoffs) forget(tx *state.ReadTx) {
	for id := range b {
		e := state.Eval(tx, id)
		if e == nil || e.Status != structs.EvalPending {
			delete(b, id)
		}
	}
}
