package taskrunner

import (
	"context"
	"sync"

	"berth/client/hooks"
)

// runningHooks are the hooks of a task that act while its process runs.
type runningHooks struct {
	agent context.Context
	// ctx is the context of Started. It is alive if the process has ended. It has ended if the agent stops and
	// leaves the process running.
	ctx    context.Context
	cancel context.CancelFunc

	// stopWaiting ends the wait for the hooks of the allocation, so that no Started follows it.
	stopWaiting context.CancelFunc
	starting    sync.WaitGroup
	started     []hooks.Started
}

// startHooks calls Started of the task's hooks once the allocation's hooks are up. For the process of an
// earlier agent that may take a while.
func (t *Task) startHooks(agent context.Context) *runningHooks {
	r := &runningHooks{agent: agent}
	r.ctx, r.cancel = context.WithCancel(agent)
	waiting, stopWaiting := context.WithCancel(r.ctx)
	r.stopWaiting = stopWaiting
	begin := func() {
		if t.live && !t.restoreHooks(waiting) {
			return
		}

		for _, h := range t.list {
			if s, ok := h.(hooks.Started); ok {
				s.Started(r.ctx, t.Control)
				r.started = append(r.started, s)
			}
		}
	}

	// A new process has awaited the hooks of the allocation. For one of an earlier agent they may need long,
	// and its end must not be missed meanwhile.
	if t.live {
		r.starting.Go(begin)
	} else {
		begin()
	}

	return r
}

// stopping calls Stopping of the hooks, before the process is stopped.
func (r *runningHooks) stopping(ctx context.Context) {
	r.endStart()
	for _, h := range r.started {
		if s, ok := h.(hooks.Stopping); ok {
			s.Stopping(ctx)
		}
	}
}

// stopped calls Stopped of the hooks: the process has ended, or the agent stops.
func (r *runningHooks) stopped() {
	defer r.cancel()
	r.endStart()
	if r.agent.Err() != nil {
		r.cancel() // a context that ends with the agent may end later: the hooks have to see it ended
	}

	for _, s := range r.started {
		s.Stopped()
	}
}

// endStart prevents any further Started.
func (r *runningHooks) endStart() {
	r.stopWaiting()
	r.starting.Wait()
}
